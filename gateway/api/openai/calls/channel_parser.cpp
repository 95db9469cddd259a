#include "gateway/api/openai/calls/channel_parser.hpp"

#include "gateway/api/openai/calls/call_scan.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::string_view start_mark = "<|start|>", channel_mark = "<|channel|>",
                           message_mark = "<|message|>", end_mark = "<|end|>",
                           call_end = "<|call|>", function_mark = "to=functions.",
                           recipient_mark = "to=";
constexpr std::size_t header_bytes_max = 512;
// A message ends with one of them. A model may leave <|end|> out.
constexpr std::array<std::string_view, 4> message_ends{end_mark, call_end, start_mark,
                                                       channel_mark};
constexpr std::array<std::string_view, 2> call_ends{end_mark, call_end};
// A header begins with one of them, behind white space; the start of the first is in the prompt.
constexpr std::array<std::string_view, 3> header_begins{start_mark, channel_mark, recipient_mark};

bool may_be_header(std::string_view text) {
  text.remove_prefix(behind_space(text, 0));
  return std::any_of(header_begins.begin(), header_begins.end(), [&](std::string_view begin) {
    return text.starts_with(begin) || begin.starts_with(text);
  });
}

// The word behind a mark in a header; empty: there is none.
std::string_view word_behind(std::string_view header, std::string_view mark) {
  const auto at = header.find(mark);
  if (at == std::string_view::npos) {
    return {};
  }
  const auto rest = header.substr(at + mark.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

} // namespace

void channel_parser::open(std::string_view header, std::string& reasoning, std::string& answer) {
  if (const auto name = word_behind(header, function_mark); !name.empty()) {
    const auto& row = text::row_of(call_format::harmony);
    answer += row.call_open;
    answer += name;
    answer += row.aside;
    answer += row.name_close;
    at_ = state::call;
    is_thinking_ = false;
    return;
  }
  const bool is_to_tool = !word_behind(header, recipient_mark).empty(); // this server has none
  const auto name = word_behind(header, channel_mark);
  at_ = name == "analysis" && !is_to_tool ? state::reasoning : state::answer;
  is_thinking_ = at_ == state::reasoning;
  if (is_thinking_) {
    reasoning += has_reasoning_ ? "\n" : "";
    return;
  }
  answer += has_answer_ ? "\n" : "";
  has_answer_ = true;
  if (is_to_tool || (name != "final" && name != "commentary")) {
    answer += header;
    answer += message_mark;
  }
}

bool channel_parser::step_header(std::string& reasoning, std::string& answer) {
  if (buffer_.empty()) {
    return false;
  }
  const auto at = buffer_.find(message_mark);
  if (at == std::string::npos && buffer_.size() <= header_bytes_max && may_be_header(buffer_)) {
    return false;
  }
  if (at == std::string::npos || !may_be_header(buffer_)) {
    at_ = state::plain;
    is_thinking_ = false;
    return true;
  }
  open(std::string_view(buffer_).substr(0, at), reasoning, answer);
  buffer_.erase(0, at + message_mark.size());
  return true;
}

bool channel_parser::step_message(std::string& to) {
  const auto text = std::string_view(buffer_);
  auto whole = std::string::npos;
  auto sure = text.size();
  std::string_view ended_by;
  const auto marks = at_ == state::call ? std::span<const std::string_view>(call_ends)
                                        : std::span<const std::string_view>(message_ends);
  for (const auto mark : marks) {
    if (const auto at = text.find(mark); at < whole) {
      whole = at;
      ended_by = mark;
    }
    sure = std::min(sure, text.size() - held_of(text, mark));
  }
  sure = std::min(sure, whole);
  to.append(buffer_, 0, sure);
  has_reasoning_ |= at_ == state::reasoning && sure > 0;
  buffer_.erase(0, sure);
  if (whole == std::string::npos) {
    return false;
  }
  if (at_ == state::call) {
    to += call_end;
  }
  const bool is_end = ended_by == end_mark || ended_by == call_end;
  buffer_.erase(0, is_end ? ended_by.size() : 0);
  at_ = state::header;
  return true;
}

bool channel_parser::step(std::string& reasoning, std::string& answer) {
  switch (at_) {
  case state::header:
    return step_header(reasoning, answer);
  case state::reasoning:
    return step_message(reasoning);
  case state::answer:
  case state::call:
    return step_message(answer);
  case state::plain:
    answer += std::exchange(buffer_, {});
    return false;
  }
  return false;
}

void channel_parser::add(std::string_view piece, std::string& reasoning, std::string& answer) {
  buffer_ += piece;
  while (step(reasoning, answer)) {
  }
}

// A mark or header that is cut short is none of the text.
void channel_parser::finish(std::string& reasoning, std::string& answer) {
  const auto text = std::string_view(buffer_).substr(behind_space(buffer_, 0));
  const bool is_begun = text.starts_with(start_mark) || text.starts_with(channel_mark);
  const bool is_header = at_ == state::header && (has_reasoning_ || has_answer_ || is_begun);
  if (at_ == state::reasoning) {
    reasoning += buffer_;
  } else if (!is_header) {
    answer += buffer_;
  }
  buffer_.clear();
}

} // namespace baton::gateway
