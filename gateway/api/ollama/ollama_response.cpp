#include "gateway/api/ollama/ollama_response.hpp"

#include "gateway/api/ollama/ollama_error.hpp"
#include "gateway/api/openai/reply/call_reply.hpp"
#include "gateway/api/openai/reply/openai_logprobs.hpp"
#include "gateway/base/json_text.hpp"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;
using time_point = reply_times::clock::time_point;

std::int64_t nanoseconds(time_point from, time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(from, to) - from).count();
}

// The members of the last piece. The head measured the time to a step, perhaps for another gateway
// that lost the stream: here it is at most the time to the first token.
ordered end_members(const chunk& last, const reply_times& when, std::optional<time_point> first) {
  const auto begun = first.value_or(when.ended);
  const auto waited = when.granted + std::chrono::microseconds(last.prepare_micros) +
                      std::chrono::microseconds(last.queue_micros);
  const auto stepped = std::clamp(waited, when.read, std::max(when.read, begun));
  return {{"done_reason", last.finish == finish::length ? "length" : "stop"},
          {"total_duration", nanoseconds(when.read, when.ended)},
          {"load_duration", nanoseconds(when.read, stepped)},
          {"prompt_eval_count", last.prompt_tokens},
          {"prompt_eval_duration", nanoseconds(stepped, begun)},
          {"eval_count", last.output_tokens},
          {"eval_duration", nanoseconds(begun, when.ended)}};
}

bool is_of_answer(const chunk& c) noexcept {
  return c.index > 0 || c.finish != finish::none;
}

ordered line_head(const ollama_shape& shape) {
  return {{"model", shape.is.model}, {"created_at", rfc3339(shape.clock.date())}};
}

ordered call_json(const call_owner& owner, const call_delta::part& call) {
  // Arguments that the token limit cuts are no JSON, and `arguments` must be an object.
  auto arguments = ordered::parse(call.arguments, nullptr, /*allow_exceptions=*/false);
  return {{"id", call_id(owner, call.index)},
          {"function",
           {{"index", call.index},
            {"name", call.name},
            {"arguments", arguments.is_object() ? std::move(arguments) : ordered::object()}}}};
}

ordered logprobs_content(const std::vector<token_detail>& details) {
  return logprobs_of({openai_api::chat}, details, 0)["content"];
}

void set_text(ordered& to, ollama_route route, std::string_view text,
              std::string_view thinking = {}) {
  const bool is_chat = route == ollama_route::chat;
  if (is_chat) {
    to["message"] = {{"role", "assistant"}, {"content", text}};
  } else {
    to["response"] = text;
  }
  if (!thinking.empty()) {
    (is_chat ? to["message"] : to)["thinking"] = thinking;
  }
}

} // namespace

std::string rfc3339(std::chrono::system_clock::time_point at) {
  const auto since = at.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count();
  const std::time_t whole = seconds.count();
  std::tm utc{};
  gmtime_r(&whole, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, rest);
}

http_reply ollama_load_reply(const ollama_shape& shape, bool is_unload) {
  auto body = line_head(shape);
  set_text(body, shape.route, "");
  body["done"] = true;
  body["done_reason"] = is_unload ? "unload" : "load";
  return json_reply(json_text(body));
}

void ollama_unary::add(chunk c) {
  if (!first_ && is_of_answer(c)) {
    first_ = shape_.clock.now();
  }
  parser_.collect(c, read_);
  std::move(c.details.begin(), c.details.end(), std::back_inserter(details_));
  c.text.clear();
  c.details.clear();
  last_ = std::move(c);
}

http_reply ollama_unary::reply(const reply_identity& who, const reply_times& when) const {
  const auto& calls = shape_.is.calls;
  auto body = line_head(shape_);
  set_text(body, shape_.route, read_.text,
           shape_.is.includes_reasoning ? std::string_view(read_.reasoning) : "");
  for (const auto& call : read_.calls) {
    body["message"]["tool_calls"].push_back(call_json({calls->format, who.ticket, 0}, call));
  }
  if (shape_.is.has_logprobs) {
    body["logprobs"] = logprobs_content(details_);
  }
  body["done"] = true;
  body.update(end_members(last_, when, first_));
  return json_reply(json_text(body));
}

ollama_stream::ollama_stream(ollama_shape shape, reply_identity who,
                             const std::optional<stream_position>& from)
    : shape_(std::move(shape)), who_(std::move(who)), position_(who_, from),
      parser_(shape_.is.calls, shape_.is.reads_reasoning) {}

// The end of the line before; the last one's is written by flush.
void ollama_stream::begin_line() {
  if (!lines_.empty()) {
    lines_ += "}\n";
  }
}

// The most frequent line, written by hand.
void ollama_stream::add_text_line(std::string_view text, bool is_thinking) {
  begin_line();
  lines_ += R"({"model":)";
  append_json_string(lines_, shape_.is.model);
  fmt::format_to(std::back_inserter(lines_), R"(,"created_at":"{}",)",
                 rfc3339(shape_.clock.date()));
  const bool is_chat = shape_.route == ollama_route::chat;
  lines_ += is_chat ? R"("message":{"role":"assistant","content":)" : R"("response":)";
  if (is_thinking) {
    lines_ += R"("","thinking":)";
  }
  append_json_string(lines_, text);
  lines_ += is_chat ? R"(},"done":false)" : R"(,"done":false)";
  end_line();
}

void ollama_stream::add_line(const ordered& members) {
  begin_line();
  auto line = line_head(shape_);
  line.update(members);
  lines_ += json_text(line);
  lines_.pop_back(); // its brace
  end_line();
}

void ollama_stream::end_line() {
  if (!logprobs_.empty()) {
    lines_ += R"(,"logprobs":)" + json_text(std::exchange(logprobs_, ordered::array()));
  }
}

void ollama_stream::give_call() {
  if (!call_) {
    return;
  }
  const auto call = *std::exchange(call_, std::nullopt);
  auto calls = ordered::array({call_json({shape_.is.calls->format, who_.ticket, 0}, call)});
  add_line({{"message", {{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(calls)}}},
            {"done", false}});
}

void ollama_stream::take(const chunk& c, std::string_view text) {
  call_delta what;
  parser_.add(c, text, what);
  take(what);
}

void ollama_stream::take(const call_delta& what) {
  if (!what.reasoning.empty() && shape_.is.includes_reasoning) {
    add_text_line(what.reasoning, /*is_thinking=*/true);
  }
  if (!what.text.empty()) {
    give_call();
    add_text_line(what.text);
  }
  for (const auto& part : what.calls) {
    if (!call_ || !part.name.empty()) {
      give_call();
      call_ = part;
    } else {
      call_->arguments += part.arguments;
    }
  }
}

void ollama_stream::end(const chunk& c) {
  call_delta rest; // the pending text
  parser_.finish(rest);
  take(rest);
  give_call();
  if (position_.had_end()) {
    lines_.clear();
  }
  auto when = who_.times;
  when.ended = shape_.clock.now();
  ordered line = ordered::object();
  set_text(line, shape_.route, "");
  line["done"] = true;
  line.update(end_members(c, when, first_));
  add_line(line);
  has_ended_ = true;
}

void ollama_stream::flush(std::string& out) {
  if (lines_.empty()) {
    return;
  }
  out += std::exchange(lines_, {});
  out += R"(,"id":")";
  append_position(out, position_.now());
  out += "\"}\n";
}

void ollama_stream::add(const chunk& c, std::string& out) {
  if (has_ended_) {
    return;
  }
  if (!first_ && is_of_answer(c)) {
    first_ = shape_.clock.now();
  }
  const auto text = std::string_view(c.text);
  const auto had = position_.advance(c);
  if (had > 0) {
    take(c, text.substr(0, had));
    lines_.clear();
  }
  const bool is_new = had < text.size() || (text.empty() && !position_.is_behind());
  if (shape_.is.has_logprobs && is_new) {
    for (auto& entry : logprobs_content(c.details)) {
      logprobs_.push_back(std::move(entry));
    }
  }
  if (had < text.size()) {
    take(c, text.substr(had));
  }
  if (c.finish != finish::none) {
    end(c);
  }
  flush(out);
}

void ollama_stream::moved_to(const granted& g) {
  position_.moved_to(g);
}

void ollama_stream::fail(const error& e, std::string& out) {
  if (!std::exchange(has_ended_, true)) {
    out += ollama_error_body(e) + "\n";
  }
}

} // namespace baton::gateway
