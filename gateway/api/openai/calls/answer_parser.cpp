#include "gateway/api/openai/calls/answer_parser.hpp"

#include "gateway/api/openai/calls/call_scan.hpp"
#include "gateway/api/openai/calls/channel_parser.hpp"

#include <algorithm>
#include <cmath>

namespace baton::gateway {
namespace {

std::string_view without_space_behind(std::string_view text) noexcept {
  const auto last = text.find_last_not_of(call_space);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

} // namespace

reasoning_parser::reasoning_parser(const text::reasoning_row& row, bool is_inside)
    : row_(row), at_(is_inside ? state::begun : state::lead) {}

// Whether there is something else behind it.
bool reasoning_parser::skip_space() {
  buffer_.erase(0, std::min(buffer_.size(), buffer_.find_first_not_of(call_space)));
  return !buffer_.empty();
}

bool reasoning_parser::step_inside(std::string& reasoning) {
  const auto close = buffer_.find(row_.close);
  if (close != std::string::npos) {
    reasoning += without_space_behind(std::string_view(buffer_).substr(0, close));
    buffer_.erase(0, close + row_.close.size());
    at_ = state::gap;
    return true;
  }
  const auto text = std::string_view(buffer_);
  const auto sure = without_space_behind(text.substr(0, text.size() - held_of(text, row_.close)));
  reasoning += sure;
  buffer_.erase(0, sure.size());
  return false;
}

bool reasoning_parser::step(std::string& reasoning, std::string& answer) {
  switch (at_) {
  case state::lead: {
    const auto begin = std::min(buffer_.size(), buffer_.find_first_not_of(call_space));
    const auto text = std::string_view(buffer_).substr(begin);
    if (text.starts_with(row_.open)) {
      buffer_.erase(0, begin + row_.open.size());
      at_ = state::begun;
      return true;
    }
    if (row_.open.starts_with(text)) {
      return false;
    }
    at_ = state::answer;
    return true;
  }
  case state::begun:
    if (skip_space()) {
      at_ = state::inside;
      return true;
    }
    return false;
  case state::inside:
    return step_inside(reasoning);
  case state::gap:
    if (skip_space()) {
      at_ = state::answer;
      return true;
    }
    return false;
  case state::answer:
    answer += std::exchange(buffer_, {});
    return false;
  }
  return false;
}

void reasoning_parser::add(std::string_view piece, std::string& reasoning, std::string& answer) {
  buffer_ += piece;
  while (step(reasoning, answer)) {
  }
}

void reasoning_parser::finish(std::string& reasoning, std::string& answer) {
  (is_thinking() ? reasoning : answer) += at_ == state::gap ? std::string() : buffer_;
  buffer_.clear();
}

answer_parser::answer_parser(const std::shared_ptr<const call_reading>& calls, bool reads_reasoning)
    : reads_reasoning_(reads_reasoning) {
  if (calls) {
    calls_.emplace(calls);
  }
}

// Returns the bytes of the answer.
std::size_t answer_parser::take(std::string_view piece, call_delta& out) {
  std::string answer;
  if (reasoning_) {
    reasoning_->add(piece, out.reasoning, answer);
    piece = answer;
  }
  if (calls_) {
    calls_->add(piece, out);
  } else {
    out.text += piece;
  }
  return piece.size();
}

void answer_parser::add(const chunk& c, std::string_view piece, call_delta& out) {
  if (!std::exchange(has_begun_, true) && reads_reasoning_ &&
      c.reasoning != reasoning_format::none) {
    const auto& row = text::row_of(c.reasoning);
    if (row.has_channels) {
      reasoning_ = std::make_unique<channel_parser>(c.begins_in_reasoning);
    } else {
      reasoning_ = std::make_unique<reasoning_parser>(row, c.begins_in_reasoning);
    }
  }
  const bool was_thinking = reasoning_ && reasoning_->is_thinking();
  const auto answer_bytes = take(piece, out);
  if (reasoning_ && reasoning_->is_thinking()) {
    reasoning_tokens_ = c.output_tokens;
  } else if (was_thinking && !piece.empty()) {
    // The header of a call is written anew, so it may have more bytes than it had.
    const auto share = 1.0 - static_cast<double>(std::min(answer_bytes, piece.size())) /
                                 static_cast<double>(piece.size());
    const auto tokens = c.output_tokens - std::min(c.output_tokens, tokens_);
    reasoning_tokens_ = tokens_ + static_cast<std::uint32_t>(std::lround(share * tokens));
  }
  tokens_ = c.output_tokens;
}

void answer_parser::finish(call_delta& out) {
  std::string answer;
  if (reasoning_) {
    reasoning_->finish(out.reasoning, answer);
  }
  if (calls_) {
    calls_->add(answer, out);
    calls_->finish(out);
  } else {
    out.text += answer;
  }
}

void answer_parser::collect(const chunk& c, call_delta& all) {
  call_delta more;
  add(c, c.text, more);
  if (c.finish != baton::finish::none) {
    finish(more);
  }
  append(all, more);
}

void append(call_delta& all, const call_delta& more) {
  all.reasoning += more.reasoning;
  all.text += more.text;
  for (const auto& part : more.calls) {
    if (all.calls.empty() || all.calls.back().index != part.index) {
      all.calls.push_back(part);
    } else {
      all.calls.back().arguments += part.arguments;
    }
  }
}

} // namespace baton::gateway
