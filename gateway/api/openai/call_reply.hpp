// Calls of tools as OpenAI's JSON. Used by openai_response.cpp alone. Pure.
#pragma once

#include "gateway/api/openai/call_parser.hpp"
#include "schema/ids.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace baton::gateway {

// Whose calls these are: their ids are made of it, so a stream that is gone on with, and the same
// request asked for by its name, have the same ones.
struct call_owner {
  call_format format = call_format::hermes;
  ticket_id ticket;
  std::uint32_t choice = 0;
};
std::string call_id(const call_owner& owner, std::uint32_t index);

// `tool_calls` of a message. Requires: each call has all of its arguments in one part.
nlohmann::ordered_json calls_json(const call_owner& owner, const std::vector<call_delta::part>& of);
// `tool_calls` of a delta.
nlohmann::ordered_json call_deltas_json(const call_owner& owner,
                                        const std::vector<call_delta::part>& of);

} // namespace baton::gateway
