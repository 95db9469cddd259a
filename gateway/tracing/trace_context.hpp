// Who a request belongs to beyond this server: the caller's trace, as W3C Trace Context
// (https://www.w3.org/TR/trace-context/) carries it in the headers traceparent and tracestate.
// Pure.
//
//   traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//             version-trace, 16 bytes                -span, 8 bytes   -flags
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// Neither is ever all zeroes: that is no id.
using trace_id = std::array<std::uint8_t, 16>;
using span_id = std::array<std::uint8_t, 8>;

inline constexpr std::uint8_t flag_sampled = 0x01;
inline constexpr std::uint8_t flag_random = 0x02; // level 2: the last 7 bytes of the trace's id are

// A span of the caller, below which a request is a span of ours.
struct trace_parent {
  trace_id trace{};
  span_id span{};
  std::uint8_t flags = 0;
  std::string state; // tracestate, to be carried over; empty: none

  bool is_sampled() const noexcept { return (flags & flag_sampled) != 0; }
  friend bool operator==(const trace_parent&, const trace_parent&) = default;
};

inline constexpr std::size_t tracestate_members_max = 32; // section 3.3.1.1
inline constexpr std::size_t tracestate_bytes_max = 512;  // what is carried at least: 3.3.1.5
inline constexpr std::size_t tracestate_member_bytes_large =
    128; // dropped first, if it is too long

// Nothing if the header is not one to the letter: the request begins a trace of its own then. A
// newer version is read as far as this one goes (section 4.3).
std::optional<trace_parent> parse_traceparent(std::string_view header);
// The list as it is to be carried on; empty if a member of it breaks the grammar, or two have the
// same key. What is too long loses members, large ones first, then the last ones.
std::string parse_tracestate(std::string_view header);
// Of version 00.
std::string traceparent_of(const trace_parent& parent);

std::string hex_of(const trace_id& id);
std::string hex_of(const span_id& id);

// Whether a trace of this id, which begins here, is one of this share: by the random part of the
// id, so that everybody who goes by the same share says the same.
bool is_in_share(const trace_id& id, double share) noexcept;

} // namespace baton::gateway
