// Text to ids: chat template, byte-pair encoding. Special tokens come only from the template's own
// text.
#pragma once

#include "actors/interfaces.hpp"
#include "runtime/text/stream/call_style.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"

#include <memory>
#include <optional>

namespace baton::actors {

struct tokenizer_config {
  scheduler_actor scheduler;
  directory peers;
  std::shared_ptr<const text::tokenizer> tokenizer;
  std::optional<text::chat_template> chat_template; // empty: chat prompts are refused
  std::uint32_t max_model_len = 0;
  text::call_style calls{};                            // of the chat template
  reasoning_format reasoning = reasoning_format::none; // of the chat template
  std::string chat_template_failure{};                 // why the model's template cannot be used
  // Variables of templates beside bos_token and eos_token: "pad_token" and its text.
  std::vector<std::pair<std::string, std::string>> named_tokens{};
};

struct tokenizer_state {
  static inline const char* name = "tokenizer";
  tokenizer_config config;
  text::encode_scratch scratch;
};

tokenizer_actor::behavior_type tokenizer(tokenizer_actor::stateful_pointer<tokenizer_state> self,
                                         tokenizer_config config);

} // namespace baton::actors
