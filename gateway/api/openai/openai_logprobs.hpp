// The `logprobs` object of OpenAI's choices, and the echo of a prompt whose tokens are in the
// answer. Pure.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "schema/messages.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace baton::gateway {

// `offset`: characters of the choice's text before these tokens. `prompt`: tokens of an echo before
// them; the first has no logprob.
nlohmann::ordered_json logprobs_of(openai_api api, const std::vector<token_detail>& details,
                                   std::size_t offset,
                                   const std::vector<token_detail>& prompt = {});

// Adds the prompt details of a chunk. Chunks may repeat them; each is added once.
void add_prompt(std::vector<token_detail>& prompt, const chunk& c);

// `asked`: the prompt as the client wrote it; empty: the text of its tokens.
std::string echo_text(const std::string& asked, const std::vector<token_detail>& prompt);

} // namespace baton::gateway
