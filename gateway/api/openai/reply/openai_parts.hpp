// Parts that whole and streamed answers of OpenAI's routes have in common. Pure.
#pragma once

#include "gateway/api/openai/reply/openai_logprobs.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

logprobs_style style_of(const reply_shape& shape);
std::vector<token_id> ids_of_prompt(const std::vector<token_detail>& prompt);
nlohmann::ordered_json openai_usage(const token_usage& u, const reply_shape& shape);
// Under the names of DeepSeek, which most clients read, and of vLLM.
void put_reasoning(nlohmann::ordered_json& to, const std::string& reasoning);
// Notes the counts of a chunk's prompt. `choices`: of each prompt.
void note_prompt(const chunk& c, std::uint32_t choices, std::vector<token_usage>& prompts);
token_usage sum_of(const std::vector<token_usage>& prompts);
// OpenAI's finish reason; an answer with calls has its own.
std::string_view finish_reason_name(finish how, bool has_calls) noexcept;
std::string reply_id(openai_api api, ticket_id ticket);

} // namespace baton::gateway
