// A client's position in a stream as text: the `id` of server-sent events, which returns as
// Last-Event-ID (WHATWG HTML, section 9.2). "17-00c0ffee00c0ffee:12" is ticket, resume key and
// received tokens. With several choices "17-00c0ffee00c0ffee:12,9!", where `!` means that the
// choice's end was received. If tool calls are parsed from the stream's text, the received bytes of
// the text follow: "17-00c0ffee00c0ffee:12.57".
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct stream_position {
  ticket_id ticket;
  std::uint64_t resume_key = 0;
  std::vector<resume_point> from;          // one per choice
  std::vector<std::uint64_t> text_bytes{}; // one per choice, or none
  friend bool operator==(const stream_position&, const stream_position&) = default;
};

void append_position(std::string& out, const stream_position& position);
// For a request of `choices` choices. Errors: invalid_value, param "Last-Event-ID".
result<stream_position> parse_position(std::string_view text, std::uint32_t choices);

} // namespace baton::gateway
