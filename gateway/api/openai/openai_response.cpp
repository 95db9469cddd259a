#include "gateway/api/openai/openai_response.hpp"

#include "gateway/api/openai/best_of.hpp"
#include "gateway/api/openai/call_reply.hpp"
#include "gateway/api/openai/openai_logprobs.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

ordered openai_usage(const token_usage& u, const reply_shape& shape) {
  ordered out{{"prompt_tokens", u.prompt_tokens},
              {"completion_tokens", u.output_tokens},
              {"total_tokens", u.prompt_tokens + u.output_tokens},
              {"prompt_tokens_details", {{"cached_tokens", u.cached_tokens}}}};
  if (shape.reads_reasoning) {
    out["completion_tokens_details"] = {{"reasoning_tokens", u.reasoning_tokens}};
  }
  return out;
}

// Under the names of DeepSeek, which most clients read, and of vLLM.
void put_reasoning(ordered& to, const std::string& reasoning) {
  to["reasoning_content"] = reasoning;
  to["reasoning"] = reasoning;
}

// `choices`: for each prompt.
void note_prompt(const chunk& c, std::uint32_t choices, std::vector<token_usage>& prompts) {
  auto& u = prompts[c.choice / choices];
  u.prompt_tokens = std::max<std::uint64_t>(u.prompt_tokens, c.prompt_tokens);
  if (c.choice % choices == 0) {
    u.cached_tokens = c.cached_tokens;
  }
}

token_usage sum_of(const std::vector<token_usage>& prompts) {
  token_usage sum;
  for (const auto& u : prompts) {
    sum.prompt_tokens += u.prompt_tokens;
    sum.cached_tokens += u.cached_tokens;
  }
  return sum;
}

// The answer as a message: what the model thought, its text and its tool calls.
ordered message_json(const call_delta& answer, const call_owner& owner, bool includes_reasoning) {
  ordered out{{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
  if (!answer.reasoning.empty() && includes_reasoning) {
    put_reasoning(out, answer.reasoning);
  }
  if (answer.text.empty() && !(answer.calls.empty() && answer.reasoning.empty())) {
    out["content"] = nullptr;
  }
  if (!answer.calls.empty()) {
    out["tool_calls"] = calls_json(owner, answer.calls);
  }
  return out;
}

// OpenAI's finish reason; an answer with calls has its own.
std::string_view finish_reason_name(finish how, bool has_calls) noexcept {
  return has_calls && how == finish::stop ? "tool_calls" : finish_name(how);
}

std::string reply_id(openai_api api, ticket_id ticket) {
  return fmt::format("{}-{}", api == openai_api::chat ? "chatcmpl" : "cmpl", ticket.value);
}

ordered card_json(const model_card& card, std::string_view id) {
  return {{"id", id},
          {"object", "model"},
          {"created", card.created},
          {"owned_by", "baton"},
          {"root", card.name},
          {"parent", nullptr},
          {"max_model_len", card.max_model_len}};
}

} // namespace

std::string logprobs_json(openai_api api, const std::vector<token_detail>& details,
                          std::size_t characters_before, const std::vector<token_detail>& prompt) {
  return json_text(logprobs_of(api, details, characters_before, prompt));
}

std::string tokenize_body(const tokenized& answer, bool with_pieces) {
  ordered out{{"count", answer.ids.size()},
              {"max_model_len", answer.max_model_len},
              {"tokens", answer.ids}};
  out["token_strs"] = with_pieces ? ordered(answer.pieces) : ordered(nullptr);
  return json_text(out);
}

std::string detokenize_body(const detokenized& answer) {
  return json_text({{"prompt", answer.text}});
}

std::string model_body(const model_card& card, std::string_view id) {
  return json_text(card_json(card, id));
}

std::string models_body(const std::vector<model_card>& cards,
                        const std::vector<std::string>& aliases) {
  auto data = ordered::array();
  for (const auto& card : cards) {
    data.push_back(card_json(card, card.name));
  }
  for (const auto& alias : aliases) {
    if (!cards.empty()) {
      data.push_back(card_json(cards.front(), alias));
    }
  }
  return json_text({{"object", "list"}, {"data", std::move(data)}});
}

openai_unary::openai_unary(const reply_shape& shape)
    : shape_(shape), drawn_(std::max(shape.choices, shape.best_of)),
      choices_left_(shape.prompts * drawn_), prompts_(shape.prompts) {
  for (std::uint32_t i = 0; i < choices_left_; ++i) {
    choices_.push_back({.parser = answer_parser(shape.calls, shape.reads_reasoning)});
  }
}

std::vector<std::uint32_t> openai_unary::given() const {
  std::vector<std::uint32_t> all(choices_.size());
  std::iota(all.begin(), all.end(), 0U);
  if (shape_.choices == drawn_) {
    return all;
  }
  all.clear();
  for (std::uint32_t first = 0; first < choices_.size(); first += drawn_) {
    std::vector<double> means;
    for (auto i = first; i < first + drawn_; ++i) {
      means.push_back(mean_logprob(choices_[i].details));
    }
    for (const auto position : likeliest(means, shape_.choices)) {
      all.push_back(first + position);
    }
  }
  return all;
}

void openai_unary::add(chunk c) {
  ENSURE(c.choice < choices_.size(), "chunk of choice {} of {}", c.choice, choices_.size());
  auto& choice = choices_[c.choice];
  add_prompt(choice.prompt, c);
  choice.parser.collect(c, choice.read);
  choice.details.insert(choice.details.end(), std::make_move_iterator(c.details.begin()),
                        std::make_move_iterator(c.details.end()));
  choice.output_tokens = c.output_tokens;
  note_prompt(c, drawn_, prompts_);
  if (c.finish != finish::none && choice.how == finish::none) {
    choice.how = c.finish;
    --choices_left_;
  }
}

http_reply openai_unary::reply(const reply_identity& who, const reply_times& /*when*/) const {
  http_reply r;
  r.body = body(who);
  return r;
}

std::string openai_unary::body(const reply_identity& who) const {
  const bool is_chat = shape_.api == openai_api::chat;
  auto choices = ordered::array();
  auto usage = sum_of(prompts_);
  for (const auto& c : choices_) { // all drawn ones, including those not returned
    usage.output_tokens += c.output_tokens;
    usage.reasoning_tokens += c.parser.reasoning_tokens();
  }
  for (const auto position : given()) {
    const auto& c = choices_[position];
    const auto index = static_cast<std::uint32_t>(choices.size());
    ordered one{{"index", index}};
    const call_owner owner{shape_.calls ? shape_.calls->format : call_format::hermes, who.ticket,
                           index};
    if (is_chat) {
      one["message"] = message_json(c.read, owner, shape_.includes_reasoning);
    } else {
      one["text"] = shape_.echo.empty()
                        ? c.read.text
                        : echo_text(shape_.echo[position / drawn_], c.prompt) + c.read.text;
    }
    one["logprobs"] =
        shape_.has_logprobs ? logprobs_of(shape_.api, c.details, 0, c.prompt) : ordered(nullptr);
    one["finish_reason"] = finish_reason_name(c.how, !c.read.calls.empty());
    choices.push_back(std::move(one));
  }
  return json_text({{"id", reply_id(shape_.api, who.ticket)},
                    {"object", is_chat ? "chat.completion" : "text_completion"},
                    {"created", who.created},
                    {"model", shape_.model},
                    {"system_fingerprint", who.fingerprint},
                    {"choices", std::move(choices)},
                    {"usage", openai_usage(usage, shape_)}});
}

openai_stream::openai_stream(const reply_shape& shape, reply_identity who,
                             const std::optional<stream_position>& from)
    : shape_(shape), who_(std::move(who)), choices_(shape.prompts * shape.choices),
      choices_left_(static_cast<std::uint32_t>(choices_.size())), prompts_(shape.prompts) {
  if (from) {
    position_ = *from;
  }
  position_.ticket = who_.ticket;
  position_.resume_key = who_.resume_key;
  position_.from.resize(choices_.size());
  position_.text_bytes.resize(shape.is_parsed() ? choices_.size() : 0);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    auto& choice = choices_[i];
    choice.has_role = position_.from[i].index > 0 || position_.from[i].has_finish;
    choice.owes_echo = !choice.has_role && !shape.echo.empty();
    if (shape.has_logprobs && !shape.echo.empty()) {
      choice.echo_characters = text::utf8_characters(shape.echo[i / shape.choices]);
    }
    if (shape.is_parsed()) {
      choice.parser.emplace(shape.calls, shape.reads_reasoning);
      choice.bytes_had = position_.text_bytes[i];
      choice.index_had = position_.from[i].index;
    }
  }
  const bool is_chat = shape.api == openai_api::chat;
  head_ = json_text({{"id", reply_id(shape.api, who_.ticket)},
                     {"object", is_chat ? "chat.completion.chunk" : "text_completion"},
                     {"created", who_.created},
                     {"model", shape.model},
                     {"system_fingerprint", who_.fingerprint}});
  head_.pop_back(); // the closing brace
  head_ += ",\"choices\":[";
  tail_ = shape.includes_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
}

std::string openai_stream::echo_of(std::uint32_t choice) const {
  return echo_text(shape_.echo[choice / shape_.choices], choices_[choice].prompt);
}

std::string openai_stream::text_behind_echo(const chunk& c) const {
  return choices_[c.choice].owes_echo ? echo_of(c.choice) + c.text : c.text;
}

std::string openai_stream::logprobs_behind_echo(const chunk& c) const {
  const auto& choice = choices_[c.choice];
  if (!shape_.has_logprobs ||
      (c.details.empty() && !(choice.owes_echo && !choice.prompt.empty()))) {
    return "null";
  }
  return choice.owes_echo && !choice.prompt.empty()
             ? logprobs_json(shape_.api, c.details, 0, choice.prompt)
             : logprobs_json(shape_.api, c.details,
                             choice.echo_characters + choice.text_characters);
}

void openai_stream::begin_event(std::string& out) const {
  if (shape_.prompts == 1) {
    out += "id: ";
    append_position(out, position_);
    out += '\n';
  }
  out += "data: ";
  out += head_;
}

// Closes an event: its choice is followed by the running usage, if requested.
void openai_stream::end_event(const chunk& c, std::uint32_t output_tokens, std::string& out) const {
  if (!shape_.has_running_usage) {
    out += tail_;
    return;
  }
  const auto& of_prompt = prompts_[c.choice / shape_.choices];
  out += "],\"usage\":";
  const auto& parser = choices_[c.choice].parser;
  out += json_text(openai_usage({.prompt_tokens = of_prompt.prompt_tokens,
                                 .cached_tokens = of_prompt.cached_tokens,
                                 .output_tokens = output_tokens,
                                 .reasoning_tokens = parser ? parser->reasoning_tokens() : 0},
                                shape_));
  out += "}\n\n";
}

void openai_stream::add_role(const chunk& c, std::string& out) {
  begin_event(out);
  fmt::format_to(std::back_inserter(out),
                 R"({{"index":{},"delta":{{"role":"assistant","content":""}},)"
                 R"("logprobs":null,"finish_reason":null}})",
                 c.choice);
  end_event(c, /*output_tokens=*/0, out);
}

void openai_stream::add_text(const chunk& c, std::string& out) {
  auto& choice = choices_[c.choice];
  choice.text_characters = std::max<std::size_t>(choice.text_characters, c.characters_before);
  begin_event(out);
  const bool is_chat = shape_.api == openai_api::chat;
  fmt::format_to(std::back_inserter(out), R"({{"index":{},{})", c.choice,
                 is_chat ? R"("delta":{"content":)" : R"("text":)");
  append_json_string(out, text_behind_echo(c));
  out += is_chat ? R"(},"logprobs":)" : R"(,"logprobs":)";
  out += logprobs_behind_echo(c);
  if (std::exchange(choice.owes_echo, false) && shape_.has_logprobs) {
    choice.echo_characters = text::utf8_characters(echo_of(c.choice));
  }
  out += R"(,"finish_reason":null})";
  end_event(c, c.output_tokens, out);
  choice.text_characters += text::utf8_characters(c.text);
}

std::string openai_stream::delta_of(std::uint32_t choice, const call_delta& what) const {
  auto delta = ordered::object();
  if (!what.reasoning.empty() && shape_.includes_reasoning) {
    put_reasoning(delta, what.reasoning);
  }
  if (!what.text.empty()) {
    delta["content"] = what.text;
  }
  if (!what.calls.empty()) {
    delta["tool_calls"] = call_deltas_json({shape_.calls->format, who_.ticket, choice}, what.calls);
  }
  return json_text(delta);
}

// Text that the client has already is parsed for the state, but not written again.
void openai_stream::add_parsed(const chunk& c, std::string& out) {
  auto& choice = choices_[c.choice];
  const auto had = std::min<std::uint64_t>(choice.bytes_had, c.text.size());
  choice.bytes_had -= had;
  call_delta before, now;
  if (had > 0) {
    choice.parser->add(c, std::string_view(c.text).substr(0, had), before);
  }
  choice.parser->add(c, std::string_view(c.text).substr(had), now);
  if (!shape_.includes_reasoning) {
    now.reasoning.clear();
  }
  position_.text_bytes[c.choice] += c.text.size() - had;
  const std::size_t fresh = c.index - std::min(c.index, choice.index_had);
  const auto details_had = c.details.size() - std::min(c.details.size(), fresh);
  const std::vector details(c.details.begin() + static_cast<std::ptrdiff_t>(details_had),
                            c.details.end());
  const bool has_logprobs = shape_.has_logprobs && !details.empty();
  if (now.is_empty() && !has_logprobs) {
    return;
  }
  begin_event(out);
  fmt::format_to(std::back_inserter(out),
                 R"({{"index":{},"delta":{},"logprobs":{},"finish_reason":null}})", c.choice,
                 delta_of(c.choice, now),
                 has_logprobs ? logprobs_json(shape_.api, details, 0) : "null");
  end_event(c, c.output_tokens, out);
}

void openai_stream::add_finish(const chunk& c, std::string& out) {
  std::string delta = R"("delta":{})";
  std::string logprobs = "null";
  if (shape_.api == openai_api::completions) {
    chunk echo; // only the echo: the text was sent before
    echo.choice = c.choice;
    delta = R"("text":)";
    append_json_string(delta, text_behind_echo(echo));
    logprobs = logprobs_behind_echo(echo);
  }
  bool has_calls = false;
  if (auto& parser = choices_[c.choice].parser) {
    call_delta rest; // the pending text
    parser->finish(rest);
    delta = R"("delta":)" + delta_of(c.choice, rest);
    has_calls = parser->calls() > 0;
  }
  begin_event(out);
  fmt::format_to(std::back_inserter(out), R"({{"index":{},{},"logprobs":{},"finish_reason":"{}"}})",
                 c.choice, delta, logprobs, finish_reason_name(c.finish, has_calls));
  end_event(c, c.output_tokens, out);
}

void openai_stream::add_usage(std::string& out) {
  auto usage = sum_of(prompts_);
  for (const auto& choice : choices_) {
    usage.output_tokens += choice.output_tokens;
    usage.reasoning_tokens += choice.parser ? choice.parser->reasoning_tokens() : 0;
  }
  begin_event(out);
  out += "],\"usage\":";
  out += json_text(openai_usage(usage, shape_));
  out += "}\n\n";
}

void openai_stream::add(const chunk& c, std::string& out) {
  ENSURE(c.choice < choices_.size(), "chunk of choice {} of {}", c.choice, choices_.size());
  auto& choice = choices_[c.choice];
  if (has_ended_ || choice.has_finished) {
    return;
  }
  note_prompt(c, shape_.choices, prompts_);
  if (!choice.has_role && shape_.api == openai_api::chat) {
    add_role(c, out);
  }
  choice.has_role = true;
  choice.output_tokens = c.output_tokens;
  add_prompt(choice.prompt, c);
  auto& position = position_.from[c.choice];
  position.index = std::max(position.index, c.index);
  // A token may have no text yet (part of a character); with logprobs it is still an event.
  if (choice.parser) {
    add_parsed(c, out);
  } else if (!c.text.empty() || (shape_.has_logprobs && !c.details.empty())) {
    add_text(c, out);
  }
  if (c.finish == finish::none) {
    return;
  }
  choice.has_finished = true;
  if (!std::exchange(position.has_finish, true)) { // else the client had it before it resumed
    add_finish(c, out);
  }
  if (--choices_left_ == 0) {
    if (shape_.includes_usage) {
      add_usage(out);
    }
    out += "data: [DONE]\n\n";
    has_ended_ = true;
  }
}

void openai_stream::moved_to(const granted& g) {
  position_.ticket = g.ticket;
  position_.resume_key = g.resume_key;
}

void openai_stream::fail(const error& e, std::string& out) {
  if (has_ended_) {
    return;
  }
  has_ended_ = true;
  out += "data: ";
  out += error_body(e);
  out += "\n\ndata: [DONE]\n\n";
}

} // namespace baton::gateway
