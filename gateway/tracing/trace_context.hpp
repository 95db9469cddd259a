// The caller's trace of a request: W3C Trace Context (https://www.w3.org/TR/trace-context/) in the
// headers traceparent and tracestate. Pure.
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

// All zeroes are not a valid id.
using trace_id = std::array<std::uint8_t, 16>;
using span_id = std::array<std::uint8_t, 8>;

inline constexpr std::uint8_t flag_sampled = 0x01;
inline constexpr std::uint8_t flag_random = 0x02; // level 2: the last 7 bytes of the trace id are

// The caller's span, the parent of the request's span.
struct trace_parent {
  trace_id trace{};
  span_id span{};
  std::uint8_t flags = 0;
  std::string state; // tracestate, to be propagated; empty: none

  bool is_sampled() const noexcept { return (flags & flag_sampled) != 0; }
  friend bool operator==(const trace_parent&, const trace_parent&) = default;
};

inline constexpr std::size_t tracestate_members_max = 32; // section 3.3.1.1
inline constexpr std::size_t tracestate_bytes_max = 512;  // to propagate at least: 3.3.1.5
inline constexpr std::size_t tracestate_member_bytes_large =
    128; // dropped first if the list is too long

// Empty unless the header is strictly valid; the request then begins a trace of its own. The known
// part of a newer version is read (section 4.3).
std::optional<trace_parent> parse_traceparent(std::string_view header);
// The list to propagate; empty if a member is malformed or a key repeats. A list that is too long
// loses its large members first, then its last ones.
std::string parse_tracestate(std::string_view header);
// In version 00.
std::string traceparent_of(const trace_parent& parent);

std::string hex_of(const trace_id& id);
std::string hex_of(const span_id& id);

// Whether a trace that begins here is sampled. Decided by the random part of the id, so that all
// services with the same share agree.
bool is_in_share(const trace_id& id, double share) noexcept;

} // namespace baton::gateway
