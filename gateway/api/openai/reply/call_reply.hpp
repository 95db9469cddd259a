// Tool calls as OpenAI's JSON. Used by openai_response.cpp only. Pure.
#pragma once

#include "gateway/api/openai/calls/call_parser.hpp"
#include "schema/ids.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace baton::gateway {

// The ids of calls derive from it. So a resumed stream, and the same request repeated with its
// request_id, get the same ids.
struct call_owner {
  call_format format = call_format::hermes;
  ticket_id ticket;
  std::uint32_t choice = 0;
};
std::string call_id(const call_owner& owner, std::uint32_t index);

// `tool_calls` of a message. Requires: each call has all its arguments in one part.
nlohmann::ordered_json calls_json(const call_owner& owner, const std::vector<call_delta::part>& of);
// `tool_calls` of a delta.
nlohmann::ordered_json call_deltas_json(const call_owner& owner,
                                        const std::vector<call_delta::part>& of);

} // namespace baton::gateway
