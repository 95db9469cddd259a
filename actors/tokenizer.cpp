#include "actors/tokenizer.hpp"

#include "actors/actor_faults.hpp"
#include "runtime/text/stream/reasoning_style.hpp"
#include "runtime/text/template/conversation.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::actors {
namespace {

using tokenizer_pointer = tokenizer_actor::stateful_pointer<tokenizer_state>;
using ids = std::vector<token_id>;

// The input to encode: for a chat, with the other inputs of its template.
struct encode_request {
  const prompt& input;
  std::string_view tools;
  bool add_generation_prompt;
  bool parses_special;
  const template_options& options;
};

error no_template(const tokenizer_config& config) {
  if (config.chat_template_failure.empty())
    return fail(errc::template_failed, "this model has no chat template: use /v1/completions");
  return fail(errc::template_failed,
              "the chat template of this model cannot be used: {}: use /v1/completions",
              config.chat_template_failure);
}

// The prompt's ids, and how its answer begins.
struct encoded_prompt {
  ids of;
  text::reasoning_start reasoning{};
};

result<encoded_prompt> encode_chat(tokenizer_state& s, const encode_request& m) {
  const auto& config = s.config;
  if (!config.chat_template)
    return no_template(config);
  text::template_input input;
  const auto& chat = std::get<chat_prompt>(m.input);
  if (auto ok = text::put_conversation(chat, m.tools, config.calls, input); !ok)
    return ok.error();
  if (auto ok = text::put_options(m.options, *config.chat_template, input); !ok)
    return ok.error();
  input.add_generation_prompt = m.add_generation_prompt && !m.options.continues_final;
  input.named_tokens = config.named_tokens;
  const auto& vocabulary = *config.tokenizer;
  input.bos_token = vocabulary.bos() ? std::string(vocabulary.piece(*vocabulary.bos())) : "";
  input.eos_token = vocabulary.eos() ? std::string(vocabulary.piece(*vocabulary.eos())) : "";
  auto rendered = config.chat_template->render(input);
  if (!rendered)
    return rendered.error();
  auto encoded = vocabulary.encode(rendered->segments, s.scratch);
  if (encoded && m.options.special == special_tokens::added)
    encoded = vocabulary.with_special(*std::move(encoded));
  if (!encoded)
    return encoded.error();
  return encoded_prompt{*std::move(encoded),
                        text::reasoning_start_of(config.reasoning, rendered->segments)};
}

result<ids> check_ids(const tokenizer_state& s, const ids_prompt& given) {
  for (auto id : given)
    if (!s.config.tokenizer->contains(id))
      return fail_param(errc::invalid_value, "prompt",
                        "token id {} is outside the vocabulary of {}", id,
                        s.config.tokenizer->size());
  return given;
}

result<encoded_prompt> encode(tokenizer_state& s, const encode_request& m) {
  const auto without_reasoning = [](result<ids> encoded) -> result<encoded_prompt> {
    return encoded ? encoded_prompt{*std::move(encoded)} : result<encoded_prompt>(encoded.error());
  };
  if (const auto* text = std::get_if<std::string>(&m.input))
    return without_reasoning(s.config.tokenizer->encode_prompt(
        *text, m.parses_special, m.options.special != special_tokens::omitted, s.scratch));
  if (const auto* given = std::get_if<ids_prompt>(&m.input))
    return without_reasoning(check_ids(s, *given));
  return encode_chat(s, m);
}

// Completes a constraint: the tokenizer alone knows how the answer begins.
void settle_constraint(shared_constraint& of, bool continues, const text::reasoning_start& begins) {
  if (!of || (!continues && begins.format == reasoning_format::none))
    return;
  constraint settled = *of;
  settled.continues_prompt = continues;
  settled.reasoning = begins.format;
  settled.begins_in_reasoning = begins.is_inside;
  of = std::move(settled);
}

// The answer to a chat is a text of its own. A completion continues its prompt: a space between
// them is part of it, unless the prompt has no text. The same holds for a chat whose last message
// stays open.
bool continues_prompt(const text::tokenizer& vocabulary, const submit& m, const ids& encoded) {
  const auto is_shown = [&vocabulary](token_id id) { return !vocabulary.is_control(id); };
  const bool is_turn =
      std::holds_alternative<chat_prompt>(m.input) && !m.template_options.continues_final;
  return !is_turn && std::any_of(encoded.begin(), encoded.end(), is_shown);
}

// Applies the model's default: at most as many tokens as the context leaves.
void settle_max_tokens(submit& m, std::size_t prompt_tokens, std::uint32_t max_model_len) {
  if (m.max_tokens_default == 0 || m.terms.max_tokens_given || prompt_tokens >= max_model_len)
    return;
  const auto room = max_model_len - static_cast<std::uint32_t>(prompt_tokens);
  m.terms.stop.max_tokens = std::min(std::max(m.max_tokens_default, m.terms.stop.min_tokens), room);
  m.terms.max_tokens_given = true;
}

void on_submit(tokenizer_pointer self, submit& m) {
  auto& s = self->state;
  auto made = encode(s, {.input = m.input,
                         .tools = m.tools,
                         .add_generation_prompt = m.add_generation_prompt,
                         .parses_special = m.parses_special,
                         .options = m.template_options});
  if (made && made->of.empty())
    made = fail_param(errc::invalid_value, "prompt", "the prompt is empty");
  if (!made) {
    self->send(s.config.scheduler, cancel{.ticket = m.ticket,
                                          .choice = std::nullopt,
                                          .why = cancel_reason::refused,
                                          .tokens_kept = 0,
                                          .reason = made.error()});
    return;
  }
  if (m.terms.sampling.constraint && s.config.tokenizer->end_ids().empty()) {
    self->send(s.config.scheduler,
               cancel{.ticket = m.ticket,
                      .choice = std::nullopt,
                      .why = cancel_reason::refused,
                      .tokens_kept = 0,
                      .reason = fail_param(errc::unsupported_parameter, "structured_outputs",
                                           "the model has no token that ends an answer")});
    return;
  }
  auto& encoded = made->of;
  if (m.prompt_tokens_max > 0 && encoded.size() > m.prompt_tokens_max)
    encoded.erase(encoded.begin(), encoded.end() - m.prompt_tokens_max);
  settle_max_tokens(m, encoded.size(), s.config.max_model_len);
  const bool continues = !m.begins_text && continues_prompt(*s.config.tokenizer, m, encoded);
  const bool is_ids = std::holds_alternative<ids_prompt>(m.input); // settled when it was a chat
  const auto begins =
      is_ids ? text::reasoning_start{m.reasoning, m.begins_in_reasoning} : made->reasoning;
  if (!is_ids || continues)
    settle_constraint(m.terms.sampling.constraint, continues, begins);
  self->send(s.config.scheduler, admit{.request = m.request,
                                       .gateway = m.gateway,
                                       .ticket = m.ticket,
                                       .prompt_ids = std::move(encoded),
                                       .terms = std::move(m.terms),
                                       .delivered = std::move(m.delivered),
                                       .continues_prompt = continues,
                                       .reasoning = begins.format,
                                       .begins_in_reasoning = begins.is_inside});
}

// Whether ids and pieces fit into a message.
result<void> check_answer(const tokenizer_state& s, const ids& made) {
  std::size_t bytes = 0;
  for (auto id : made)
    bytes += s.config.tokenizer->piece(id).size();
  if (made.size() > limits::ids_max || bytes > limits::prompt_bytes_max)
    return fail_param(errc::payload_too_large, "prompt",
                      "the prompt has {} tokens of {} bytes, an answer at most {} of {}",
                      made.size(), bytes, limits::ids_max, limits::prompt_bytes_max);
  return {};
}

void on_tokenize(tokenizer_pointer self, const tokenize& m) {
  auto& s = self->state;
  tokenized answer{.request = m.request,
                   .ids = {},
                   .pieces = {},
                   .max_model_len = s.config.max_model_len,
                   .failure = std::nullopt};
  auto made = encode(s, {.input = m.input,
                         .tools = m.tools,
                         .add_generation_prompt = m.add_generation_prompt,
                         .parses_special = m.parses_special,
                         .options = m.template_options});
  auto checked = made ? check_answer(s, made->of) : made.error();
  if (checked) {
    for (auto id : made->of)
      answer.pieces.emplace_back(s.config.tokenizer->piece(id));
    answer.ids = std::move(made->of);
  } else {
    answer.failure = checked.error();
  }
  self->send(s.config.peers.gateway(m.gateway), std::move(answer));
}

void on_detokenize(tokenizer_pointer self, const detokenize& m) {
  auto& s = self->state;
  auto text = s.config.tokenizer->decode(m.ids, /*skip_special=*/false);
  detokenized answer{m.request, {}, std::nullopt};
  if (!text)
    answer.failure = text.error();
  else if (text->size() > limits::chunk_bytes_max)
    answer.failure = fail_param(errc::payload_too_large, "tokens",
                                "the text of these tokens has {} bytes, an answer at most {}",
                                text->size(), limits::chunk_bytes_max);
  else
    answer.text = std::move(*text);
  self->send(s.config.peers.gateway(m.gateway), std::move(answer));
}

} // namespace

tokenizer_actor::behavior_type tokenizer(tokenizer_pointer self, tokenizer_config config) {
  install_fault_handlers(self);
  self->state.config = std::move(config);
  return {
      [self](submit& m) { on_submit(self, m); },
      [self](const tokenize& m) { on_tokenize(self, m); },
      [self](const detokenize& m) { on_detokenize(self, m); },
  };
}

} // namespace baton::actors
