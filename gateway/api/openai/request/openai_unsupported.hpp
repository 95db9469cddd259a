// Tables of parameters that are refused by name. Used by openai_fields.cpp only.
#pragma once

#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

// Parameters of OpenAI, vLLM and llama-server that this server lacks, with the value that has no
// effect.
inline constexpr unsupported_field unsupported_in_both[] = {
    {"use_beam_search", "false"},
    {"length_penalty", "1.0"},
    {"early_stopping", "false"},
    {"skip_special_tokens", "true"},
    {"spaces_between_special_tokens", "true"},
    {"prompt_logprobs", ""},
    {"allowed_token_ids", ""},
    {"bad_words", "[]"},
    {"logits_processors", ""},
    {"guided_decoding_backend", ""},
    {"guided_whitespace_pattern", ""},
    {"kv_transfer_params", ""},
    {"vllm_xargs", ""},
    {"service_tier", "\"auto\""},
    {"service_tier", "\"default\""},
    {"metadata", "{}"},
    {"store", "false"},
    {"mirostat", "0"},
    {"grammar", "\"\""},
    {"json_schema", ""},
    {"lora_request", ""},
    {"watermarking", "false"},
    {"truncation_side", "\"left\""},
    {"logprob_token_ids", ""},
    {"routed_experts_prompt_start", "0"},
    {"return_token_offsets", "false"},
    {"return_mm_kwargs", "true"},
    {"ec_transfer_params", ""},
    {"repetition_detection", ""},
    {"stream_interval", "1"},
    {"mm_payload", ""},
    {"return_weight_versions", "false"},
};

inline constexpr unsupported_field unsupported_in_chat[] = {
    {"best_of", "1"},
    {"functions", "[]", "tools"},
    {"function_call", "\"none\"", "tool_choice"},
    {"modalities", "[\"text\"]"},
    {"audio", ""},
    {"prediction", ""},
    {"verbosity", "\"medium\""},
    {"web_search_options", ""},
    {"chat_template", ""},
    {"echo", "false"},
    {"n_predict", "", "max_tokens"},
    {"mm_processor_kwargs", ""},
    {"media_io_kwargs", ""},
    {"return_prompt_text", "false"},
    {"tool_prompt", ""},
};

inline constexpr unsupported_field unsupported_in_completions[] = {
    {"thinking_token_budget", "-1"},
    {"suffix", "\"\""},
    {"prompt_embeds", ""},
    {"n_predict", "", "max_tokens"},
};

inline constexpr unsupported_field unsupported_in_message[] = {
    {"tool_calls", "[]"}, {"function_call", "", "tool_calls"}, {"refusal", "\"\""}, {"audio", ""},
    {"tool_call_id", ""},
};

} // namespace baton::gateway
