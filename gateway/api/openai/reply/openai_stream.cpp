// The streamed answer of OpenAI's routes (openai_stream of openai_response.hpp).
#include "gateway/api/openai/reply/call_reply.hpp"
#include "gateway/api/openai/reply/openai_parts.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/text/unicode/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace baton::gateway {

using ordered = nlohmann::ordered_json;

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
    choice.owes_prompt_ids = !choice.has_role && shape.has_token_ids;
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
  tail_ = shape.includes_usage ? ",\"usage\":null}\n\n" : "}\n\n";
}

std::string openai_stream::echo_of(std::uint32_t choice) const {
  return echo_text(shape_.echo[choice / shape_.choices], choices_[choice].prompt);
}

std::string openai_stream::text_behind_echo(const chunk& c) const {
  return choices_[c.choice].owes_echo ? echo_of(c.choice) + c.text : c.text;
}

std::string openai_stream::logprobs_behind_echo(const chunk& c) const {
  const auto& choice = choices_[c.choice];
  const bool has_prompt = choice.owes_echo && !choice.prompt.empty();
  if (!shape_.has_logprobs || (c.details.empty() && !has_prompt)) {
    return "null";
  }
  return json_text(has_prompt ? logprobs_of(style_of(shape_), c.details, 0, choice.prompt)
                              : logprobs_of(style_of(shape_), c.details,
                                            choice.echo_characters + choice.text_characters));
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
void openai_stream::end_event(const chunk& c, std::uint32_t output_tokens, std::string& out,
                              std::string_view further) const {
  out += ']';
  out += further;
  if (!shape_.has_running_usage) {
    out += tail_;
    return;
  }
  const auto& of_prompt = prompts_[c.choice / shape_.choices];
  out += ",\"usage\":";
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
  end_event(c, /*output_tokens=*/0, out, prompt_ids_of(c.choice));
}

std::string openai_stream::prompt_ids_of(std::uint32_t choice) {
  auto& of = choices_[choice];
  return std::exchange(of.owes_prompt_ids, false)
             ? fmt::format(R"(,"prompt_token_ids":[{}])", fmt::join(ids_of_prompt(of.prompt), ","))
             : std::string();
}

std::string openai_stream::ids_of(std::uint32_t choice, std::span<const token_id> ids) {
  if (!shape_.has_token_ids) {
    return {};
  }
  return fmt::format(R"(,"token_ids":[{}])", fmt::join(ids, ",")) + prompt_ids_of(choice);
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
  out += R"(,"finish_reason":null)";
  out += ids_of(c.choice, c.ids);
  out += '}';
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
  const auto ids = std::span(c.ids).last(std::min(c.ids.size(), fresh));
  if (now.is_empty() && !has_logprobs && !(shape_.has_token_ids && !ids.empty())) {
    return;
  }
  begin_event(out);
  fmt::format_to(std::back_inserter(out),
                 R"({{"index":{},"delta":{},"logprobs":{},"finish_reason":null{}}})", c.choice,
                 delta_of(c.choice, now),
                 has_logprobs ? json_text(logprobs_of(style_of(shape_), details, 0)) : "null",
                 ids_of(c.choice, ids));
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
  fmt::format_to(std::back_inserter(out),
                 R"({{"index":{},{},"logprobs":{},"finish_reason":"{}"{}}})", c.choice, delta,
                 logprobs, finish_reason_name(c.finish, has_calls), ids_of(c.choice, {}));
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
  add_prompt(choice.prompt, c);
  if (!c.prompt_details.empty()) {
    return; // such a chunk has nothing else, and more of them may follow
  }
  if (!choice.has_role && shape_.api == openai_api::chat) {
    add_role(c, out);
  }
  choice.has_role = true;
  choice.output_tokens = c.output_tokens;
  auto& position = position_.from[c.choice];
  position.index = std::max(position.index, c.index);
  // A token may have no text yet (part of a character); with logprobs or ids it is still an event.
  const bool is_wanted =
      (shape_.has_logprobs && !c.details.empty()) || (shape_.has_token_ids && !c.ids.empty());
  if (choice.parser) {
    add_parsed(c, out);
  } else if (!c.text.empty() || is_wanted) {
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
