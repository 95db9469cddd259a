#include "gateway/api/torchserve/torchserve_response.hpp"

#include "gateway/api/openai/reply/openai_logprobs.hpp"
#include "gateway/base/json_text.hpp"
#include "runtime/text/unicode/utf8.hpp"
#include "schema/ensure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::string_view last_chunk = "0\r\n\r\n";

// The format of TorchServe's handler: the text and the id of its last token.
std::string json_piece(const torchserve_shape& shape, const std::string& text, const chunk& c,
                       std::size_t characters_before) {
  std::string out = R"({"text":)";
  append_json_string(out, text);
  if (!c.ids.empty()) {
    fmt::format_to(std::back_inserter(out), R"(,"tokens":{})", c.ids.back());
  }
  if (shape.has_logprobs) {
    out += R"(,"logprobs":)";
    out += json_text(logprobs_of({openai_api::completions}, c.details, characters_before));
  }
  return out + "}";
}

} // namespace

std::string_view media_type_of(torchserve_format format) noexcept {
  switch (format) {
  case torchserve_format::text:
    return "text/plain; charset=utf-8";
  case torchserve_format::json_value:
    return "application/json";
  case torchserve_format::openai:
    break;
  }
  return "text/event-stream; charset=utf-8";
}

void torchserve_unary::add(chunk c) {
  if (is_complete()) {
    return;
  }
  for (auto& d : c.details) {
    d.text_end += static_cast<std::uint32_t>(answer_.text.size());
    answer_.details.push_back(std::move(d));
  }
  answer_.text += c.text;
  answer_.ids.insert(answer_.ids.end(), c.ids.begin(), c.ids.end());
  answer_.finish = c.finish;
}

http_reply torchserve_unary::reply(const reply_identity& /*who*/,
                                   const reply_times& /*when*/) const {
  http_reply r;
  const auto text = shape_.echo + answer_.text;
  r.content_type = media_type_of(shape_.speaks);
  r.body =
      shape_.speaks == torchserve_format::json_value ? json_piece(shape_, text, answer_, 0) : text;
  return r;
}

std::optional<std::string> torchserve_pieces::take(const chunk& c) {
  if (has_ended_) {
    return std::nullopt;
  }
  has_ended_ = c.finish != finish::none;
  const auto text = std::exchange(shape_.echo, {}) + c.text;
  // A token may have a log-probability but no text yet.
  if (text.empty() && (!shape_.has_logprobs || c.details.empty())) {
    return std::nullopt;
  }
  const auto before = characters_;
  characters_ += text::utf8_characters(text);
  return shape_.speaks == torchserve_format::json_value ? json_piece(shape_, text, c, before)
                                                        : text;
}

void torchserve_pieces::add(const chunk& c, std::string& out) {
  if (has_ended_) {
    return;
  }
  if (const auto piece = take(c)) { // an empty chunk would end the stream
    append_chunk(out, *piece);
  }
  out += has_ended_ ? last_chunk : std::string_view();
}

void torchserve_events::frame(const std::string& events, std::string& out) const {
  constexpr std::string_view end_of_event = "\n\n"; // JSON text contains no newline
  for (std::size_t begin = 0; begin < events.size();) {
    auto end = events.find(end_of_event, begin);
    end = end == events.npos ? events.size() : end + end_of_event.size();
    auto event = std::string_view(events).substr(begin, end - begin);
    begin = end;
    if (event.starts_with("id: ")) {
      event.remove_prefix(std::min(event.find('\n') + 1, event.size()));
    }
    if (is_chunked_) {
      append_chunk(out, event);
    } else {
      out += event;
    }
  }
  if (is_chunked_ && events_.has_ended() && !events.empty()) {
    out += last_chunk;
  }
}

void torchserve_events::add(const chunk& c, std::string& out) {
  std::string events;
  events_.add(c, events);
  frame(events, out);
}

void torchserve_events::fail(const error& e, std::string& out) {
  std::string events;
  has_failed_ = has_failed_ || !events_.has_ended();
  events_.fail(e, events);
  frame(events, out);
}

void torchserve_predictions::add(chunk c) {
  ENSURE(c.choice < texts_.size(), "choice {} of {}", c.choice, texts_.size());
  texts_[c.choice] += c.text;
  left_ -= c.finish != finish::none ? 1 : 0;
}

http_reply torchserve_predictions::reply(const reply_identity& /*who*/,
                                         const reply_times& /*when*/) const {
  http_reply r;
  r.body = R"({"predictions":[)";
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    r.body += i == 0 ? "" : ",";
    append_json_string(r.body, texts_[i]);
  }
  r.body += "]}";
  return r;
}

} // namespace baton::gateway
