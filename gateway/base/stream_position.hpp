// Where a client is in a stream, as text: the `id` of server-sent events, which comes back as
// Last-Event-ID (WHATWG HTML, section 9.2). "17-00c0ffee00c0ffee:12": ticket, resume key, tokens
// taken in; of several choices "17-00c0ffee00c0ffee:12,9!", where `!` says that its end was taken
// in as well. In a stream whose calls of tools are read out of its text, it says as well how many
// bytes of that were taken in: "17-00c0ffee00c0ffee:12.57".
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
// Of a request for so many choices. Errors: invalid_value, param "Last-Event-ID".
result<stream_position> parse_position(std::string_view text, std::uint32_t choices);

} // namespace baton::gateway
