// The `logprobs` object of OpenAI's choices, and the echo of a prompt whose tokens are in the
// answer. Pure.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "schema/messages.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace baton::gateway {

// The fields of a request that its logprobs depend on.
struct logprobs_style {
  openai_api api = openai_api::chat;
  bool names_tokens_by_id = false; // "token_id:123" in place of their text
};

// `offset`: characters of the choice's text before these tokens. `prompt`: tokens of an echo before
// them; the first has no logprob.
nlohmann::ordered_json logprobs_of(const logprobs_style& style,
                                   const std::vector<token_detail>& details, std::size_t offset,
                                   const std::vector<token_detail>& prompt = {});

// Adds the prompt details of a chunk. Chunks may repeat them; each is added once.
void add_prompt(std::vector<token_detail>& prompt, const chunk& c);

// `asked`: the prompt as the client wrote it; empty: the text of its tokens.
std::string echo_text(const std::string& asked, const std::vector<token_detail>& prompt);

} // namespace baton::gateway
