#include "gateway/api/anthropic/anthropic_response.hpp"

#include "gateway/api/anthropic/anthropic_error.hpp"
#include "gateway/api/anthropic/anthropic_input.hpp"
#include "gateway/api/openai/reply/call_reply.hpp"
#include "gateway/base/json_text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

std::string_view stop_reason_of(const chunk& last, bool has_calls) noexcept {
  if (last.finish == finish::length) {
    return "max_tokens";
  }
  if (has_calls) {
    return "tool_use";
  }
  return last.stop_text.empty() ? "end_turn" : "stop_sequence";
}

ordered stop_fields(const chunk& last, bool has_calls) {
  const auto reason = stop_reason_of(last, has_calls);
  return {{"stop_reason", reason},
          {"stop_sequence", reason == "stop_sequence" ? ordered(last.stop_text) : ordered()}};
}

// Tokens of the prompt are counted once: read from the cache, or as input.
ordered anthropic_usage(const chunk& c) {
  return {{"input_tokens", c.prompt_tokens - std::min(c.prompt_tokens, c.cached_tokens)},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", c.cached_tokens},
          {"output_tokens", c.output_tokens}};
}

// Without `content`, the reason of the end and the usage.
ordered message_head(const reply_shape& shape, const reply_identity& who) {
  return {{"id", fmt::format("msg_{}", who.ticket.value)},
          {"type", "message"},
          {"role", "assistant"},
          {"model", shape.model}};
}

std::string tool_use_id(const reply_shape& shape, const reply_identity& who, std::uint32_t index) {
  constexpr std::string_view openai_lead = "call_";
  auto id = call_id({shape.calls->format, who.ticket, 0}, index);
  if (id.starts_with(openai_lead)) {
    id.erase(0, openai_lead.size());
  }
  return std::string(tool_use_lead) + id;
}

ordered tool_use_block(const reply_shape& shape, const reply_identity& who,
                       const call_delta::part& call, ordered input) {
  return {{"type", "tool_use"},
          {"id", tool_use_id(shape, who, call.index)},
          {"name", call.name},
          {"input", std::move(input)}};
}

// The signature of Anthropic's servers is theirs: clients return it, and nothing checks it here.
ordered thinking_block(std::string_view text) {
  return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
}

ordered text_block(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

} // namespace

void anthropic_unary::add(chunk c) {
  parser_.collect(c, read_);
  c.text.clear();
  last_ = std::move(c);
}

http_reply anthropic_unary::reply(const reply_identity& who, const reply_times& /*when*/) const {
  auto content = ordered::array();
  if (!read_.reasoning.empty() && shape_.includes_reasoning) {
    content.push_back(thinking_block(read_.reasoning));
  }
  if (!read_.text.empty()) {
    content.push_back(text_block(read_.text));
  }
  for (const auto& call : read_.calls) {
    // Arguments that `max_tokens` cuts are no JSON, and `input` must be an object.
    auto input = ordered::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
    content.push_back(tool_use_block(shape_, who, call,
                                     input.is_object() ? std::move(input) : ordered::object()));
  }
  auto body = message_head(shape_, who);
  body["content"] = std::move(content);
  body.update(stop_fields(last_, !read_.calls.empty()));
  body["usage"] = anthropic_usage(last_);
  return json_reply(json_text(body));
}

anthropic_stream::anthropic_stream(const reply_shape& shape, reply_identity who,
                                   const std::optional<stream_position>& from)
    : shape_(shape), who_(std::move(who)), position_(who_, from),
      parser_(shape.calls, shape.reads_reasoning), has_begun_(position_.had_any()) {}

void anthropic_stream::emit(std::string_view type, ordered body) {
  last_at_ = events_.size();
  ordered data{{"type", type}};
  data.update(body);
  fmt::format_to(std::back_inserter(events_), "event: {}\ndata: {}\n\n", type, json_text(data));
}

// The most frequent event, written by hand. `lead`: of the delta, up to its text.
void anthropic_stream::emit_delta(std::string_view lead, std::string_view text) {
  last_at_ = events_.size();
  fmt::format_to(std::back_inserter(events_),
                 "event: content_block_delta\n"
                 R"(data: {{"type":"content_block_delta","index":{},"delta":{{{})",
                 block_, lead);
  append_json_string(events_, text);
  events_ += "}}\n\n";
}

void anthropic_stream::begin(const chunk& c) {
  if (std::exchange(has_begun_, true)) {
    return;
  }
  auto message = message_head(shape_, who_);
  message["content"] = ordered::array();
  message["stop_reason"] = nullptr;
  message["stop_sequence"] = nullptr;
  message["usage"] = anthropic_usage(c);
  message["usage"]["output_tokens"] = 0;
  emit("message_start", {{"message", std::move(message)}});
  last_at_ = events_.size();
  events_ += anthropic_ping;
}

void anthropic_stream::open_block(block_kind kind, ordered block) {
  open_ = kind;
  emit("content_block_start", {{"index", block_}, {"content_block", std::move(block)}});
}

void anthropic_stream::close_block() {
  const auto open = std::exchange(open_, block_kind::none);
  if (open == block_kind::thinking) {
    emit("content_block_delta",
         {{"index", block_}, {"delta", {{"type", "signature_delta"}, {"signature", ""}}}});
  }
  if (open != block_kind::none) {
    emit("content_block_stop", {{"index", block_}});
    ++block_;
  }
}

void anthropic_stream::take(const chunk& c, std::string_view text) {
  call_delta what;
  parser_.add(c, text, what);
  take(what);
}

void anthropic_stream::take(const call_delta& what) {
  if (!what.reasoning.empty() && shape_.includes_reasoning) {
    if (open_ != block_kind::thinking) {
      close_block();
      open_block(block_kind::thinking, thinking_block(""));
    }
    emit_delta(R"("type":"thinking_delta","thinking":)", what.reasoning);
  }
  if (!what.text.empty()) {
    if (open_ != block_kind::text) {
      close_block();
      open_block(block_kind::text, text_block(""));
    }
    emit_delta(R"("type":"text_delta","text":)", what.text);
  }
  for (const auto& part : what.calls) {
    if (!part.name.empty()) {
      close_block();
      has_calls_ = true;
      open_block(block_kind::call, tool_use_block(shape_, who_, part, ordered::object()));
    }
    if (!part.arguments.empty()) {
      emit_delta(R"("type":"input_json_delta","partial_json":)", part.arguments);
    }
  }
}

void anthropic_stream::end(const chunk& c) {
  call_delta rest; // the pending text
  parser_.finish(rest);
  take(rest);
  close_block();
  emit("message_delta", {{"delta", stop_fields(c, has_calls_)}, {"usage", anthropic_usage(c)}});
  if (position_.had_end()) {
    events_.clear();
  }
  emit("message_stop", ordered::object());
  has_ended_ = true;
}

// Writes the events; the last one gets the position.
void anthropic_stream::flush(std::string& out) {
  if (events_.empty()) {
    return;
  }
  out.append(events_, 0, last_at_);
  out += "id: ";
  append_position(out, position_.now());
  out += '\n';
  out.append(events_, last_at_);
  events_.clear();
}

void anthropic_stream::add(const chunk& c, std::string& out) {
  if (has_ended_) {
    return;
  }
  const auto text = std::string_view(c.text);
  const auto had = position_.advance(c);
  if (had > 0) {
    take(c, text.substr(0, had));
    events_.clear();
  }
  begin(c);
  if (had < text.size()) {
    take(c, text.substr(had));
  }
  if (c.finish != finish::none) {
    end(c);
  }
  flush(out);
}

void anthropic_stream::moved_to(const granted& g) {
  position_.moved_to(g);
}

void anthropic_stream::fail(const error& e, std::string& out) {
  if (!std::exchange(has_ended_, true)) {
    fmt::format_to(std::back_inserter(out), "event: error\ndata: {}\n\n", anthropic_error_body(e));
  }
}

} // namespace baton::gateway
