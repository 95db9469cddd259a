#include "gateway/api/openai/call_parser.hpp"

#include "runtime/grammar/json_schema/json_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::string_view space = " \t\r\n";
constexpr std::string_view fence = "```";
// Languages of blocks that may hold calls; a block without a language may too.
constexpr std::array<std::string_view, 2> block_names{"json", "tool_call"};

std::size_t behind_space(std::string_view text, std::size_t at) noexcept {
  return std::min(text.find_first_not_of(space, at), text.size());
}

// Size of the longest suffix of `text` that is a proper prefix of `mark`.
std::size_t held_of(std::string_view text, std::string_view mark) noexcept {
  for (auto size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (mark.starts_with(text.substr(text.size() - size))) {
      return size;
    }
  }
  return 0;
}

} // namespace

json_scanner::verdict json_scanner::next(char c) noexcept {
  if (is_in_string_) {
    is_in_string_ = is_escaped_ || c != '"';
    is_escaped_ = !is_escaped_ && c == '\\';
    return verdict::more;
  }
  if (c == '{' || c == '[') {
    ++depth_;
    return verdict::more;
  }
  if (depth_ == 0) {
    return verdict::bad;
  }
  if (c == '}' || c == ']') {
    return --depth_ == 0 ? verdict::done : verdict::more;
  }
  is_in_string_ = c == '"';
  // The only literals in JSON are true, false and null.
  constexpr std::string_view possible = "\",: \t\r\n0123456789+-.eEtrufalsn";
  return possible.find(c) == std::string_view::npos ? verdict::bad : verdict::more;
}

call_parser::call_parser(std::shared_ptr<const call_reading> how)
    : how_(std::move(how)), row_(text::row_of(how_->format)),
      state_(row_.mark.empty() ? state::begin : state::text) {}

void call_parser::add(std::string_view piece, call_delta& out) {
  buffer_ += piece;
  while (step(out)) {
  }
}

bool call_parser::step(call_delta& out) {
  switch (state_) {
  case state::begin:
    return step_begin();
  case state::text:
    return step_text(out);
  case state::call:
    return step_call(out);
  case state::arguments:
    return step_arguments(out);
  case state::tail:
    return step_tail(out);
  case state::next:
    return step_next(out);
  case state::plain:
    break;
  }
  return step_text(out);
}

void call_parser::give(std::size_t bytes, call_delta& out) {
  out.text.append(buffer_, 0, bytes);
  begins_line_ = bytes > 0 ? buffer_[bytes - 1] == '\n' : begins_line_;
  buffer_.erase(0, bytes);
  is_behind_call_ = is_behind_call_ && bytes == 0;
}

void call_parser::enter_call(std::size_t json_at, bool is_fenced) {
  state_ = state::call;
  is_fenced_ = is_fenced;
  is_held_ = false;
  json_at_ = scanned_ = json_at;
  scanner_ = {};
}

// A list stands at the start of an answer, possibly after its lead token.
bool call_parser::step_begin() {
  const auto at = behind_space(buffer_, 0);
  const auto rest = std::string_view(buffer_).substr(at);
  if (rest.empty()) {
    return false;
  }
  if (rest.starts_with(row_.lead)) {
    enter_call(at + row_.lead.size());
    return true;
  }
  if (row_.lead.starts_with(rest)) {
    return false;
  }
  const char opens = row_.list_open.empty() ? '{' : row_.list_open.front();
  if (rest.front() == opens) {
    enter_call(at);
  } else {
    state_ = state::plain;
  }
  return true;
}

// Emits the text up to a mark or a fence, whichever comes first. Keeps a possible beginning of one,
// with the white space before it.
bool call_parser::step_text(call_delta& out) {
  const bool seeks_mark = state_ == state::text; // plain: after a list, or after a failed call
  const auto mark = seeks_mark ? buffer_.find(row_.mark) : std::string::npos;
  const bool has_mark = mark != std::string::npos;
  auto keep = has_mark     ? mark
              : seeks_mark ? buffer_.size() - held_of(buffer_, row_.mark)
                           : buffer_.size();
  const auto block = find_fence(keep);
  const bool has_block = block < keep;
  keep = std::min(keep, block);
  while (keep > 0 && space.find(buffer_[keep - 1]) != std::string_view::npos) {
    --keep;
  }
  if (keep > 0) {
    give(keep, out);
  }
  if (has_block) {
    return step_fence(block - keep, out);
  }
  if (has_mark) {
    enter_call(mark - keep + row_.mark.size());
  }
  return has_mark;
}

// Position of a line that begins with a fence, or that may become one at the end of the buffer.
std::size_t call_parser::find_fence(std::size_t before) const noexcept {
  if (how_->is_constrained) {
    return before;
  }
  const auto text = std::string_view(buffer_).substr(0, before);
  auto at = begins_line_ ? 0 : text.find('\n');
  for (; at < text.size(); at = text.find('\n', at)) {
    at += text[at] == '\n' ? 1 : 0;
    const auto rest = text.substr(at);
    const bool may_be_one = before == buffer_.size() && fence.starts_with(rest);
    if (!rest.empty() && (rest.starts_with(fence) || may_be_one)) {
      return at;
    }
  }
  return before;
}

// Handles a fence at `at`. Requires: only white space precedes it in the buffer.
bool call_parser::step_fence(std::size_t at, call_delta& out) {
  const auto rest = std::string_view(buffer_).substr(at);
  if (rest.size() < fence.size()) {
    return false;
  }
  const auto line_end = rest.find('\n');
  const bool is_whole = line_end != std::string_view::npos;
  auto name =
      rest.substr(fence.size(), is_whole ? line_end - fence.size() : std::string_view::npos);
  name = name.substr(0, name.find_last_not_of(space) + 1);
  const auto is_named = [&](std::string_view known) {
    return is_whole ? known == name : known.starts_with(name);
  };
  const bool may_hold_calls =
      name.empty() || std::any_of(block_names.begin(), block_names.end(), is_named);
  if (!is_whole && (is_in_block_ ? name.empty() : may_hold_calls)) {
    return false;
  }
  if (!is_in_block_ && may_hold_calls) {
    enter_call(at + line_end + 1, /*is_fenced=*/true);
    return true;
  }
  is_in_block_ = is_in_block_ ? !name.empty() : true; // a closing fence has no language
  give(at + fence.size(), out);
  return true;
}

// Under the grammar a call begins with one of a fixed set of texts, one per tool.
call_parser::match call_parser::begin_by_grammar(call_delta& out) {
  auto at = json_at_;
  auto open = row_.call_open;
  if (!row_.mark.empty()) {
    open.remove_prefix(row_.mark.size());
  } else if (calls_ == 0) {
    open = row_.list_open; // call_open is empty
  }
  const auto rest = std::string_view(buffer_).substr(at);
  auto best = match::no;
  for (const auto& name : how_->names) {
    const auto head = fmt::format("{}{{\"name\": \"{}\", \"{}\": ", open, name, row_.arguments);
    if (rest.starts_with(head)) {
      begin_call(name, out);
      buffer_.erase(0, at + head.size());
      state_ = state::arguments;
      scanner_ = {};
      return match::whole;
    }
    best = head.starts_with(rest) ? match::partly : best;
  }
  return best;
}

bool call_parser::step_call(call_delta& out) {
  if (how_->is_constrained && !is_held_) {
    const auto begins = begin_by_grammar(out);
    if (begins != match::no) {
      return begins == match::whole;
    }
  }
  is_held_ = true;
  return take_held(/*is_over=*/false, out);
}

// Reads the JSON of a call or of a list of calls, and the end mark. False: more text is needed.
bool call_parser::take_held(bool is_over, call_delta& out) {
  if (scanned_ == json_at_) {
    scanned_ = json_at_ = behind_space(buffer_, json_at_);
  }
  auto now = json_scanner::verdict::more;
  auto end = scanned_;
  while (end < buffer_.size() && now == json_scanner::verdict::more) {
    now = scanner_.next(buffer_[end++]);
  }
  if (now == json_scanner::verdict::more) {
    scanned_ = end;
    return false;
  }
  const auto value = std::string_view(buffer_).substr(json_at_, end - json_at_);
  auto behind = end;
  const auto end_mark = is_fenced_ ? fence : row_.end_mark;
  if (now == json_scanner::verdict::done && !end_mark.empty()) {
    const auto at = behind_space(buffer_, end);
    const auto rest = std::string_view(buffer_).substr(at);
    if (rest.starts_with(end_mark)) {
      behind = at + end_mark.size();
    } else if (end_mark.starts_with(rest)) {
      if (!is_over) {
        scanner_ = {}; // rescan from the start when more text arrives
        scanned_ = json_at_;
        return false;
      }
      behind = buffer_.size();
    } else {
      now = json_scanner::verdict::bad;
    }
  }
  if (now == json_scanner::verdict::bad || !take_calls(value, out)) {
    refuse_call(out);
    return true;
  }
  buffer_.erase(0, behind);
  begins_line_ = false;
  is_behind_call_ = true;
  state_ = row_.mark.empty() && !is_fenced_ ? state::next : outside();
  return true;
}

// The text was no call. After a mark or a fence another call may follow, otherwise none.
void call_parser::refuse_call(call_delta& out) {
  state_ = outside();
  if (is_fenced_) {
    is_in_block_ = true;
    give(buffer_.find(fence) + fence.size(), out);
    return;
  }
  if (row_.mark.empty()) {
    return;
  }
  give(buffer_.find(row_.mark) + row_.mark.size(), out);
}

bool call_parser::take_calls(std::string_view value, call_delta& out) {
  const auto parsed = grammar::parse_json(value);
  if (!parsed) {
    return false;
  }
  std::vector<std::pair<std::string, std::string>> found;
  const auto take = [&](const grammar::json_value& one) {
    const auto* name = one.find("name");
    const auto* arguments = one.find(row_.arguments);
    arguments = arguments ? arguments : one.find("arguments");
    arguments = arguments || !is_fenced_ ? arguments : one.find("parameters");
    const bool is_call =
        one.is_object() && name && name->is_string() && arguments && arguments->is_object() &&
        std::find(how_->names.begin(), how_->names.end(), name->text) != how_->names.end();
    if (is_call) {
      found.emplace_back(name->text, grammar::to_text(*arguments));
    }
    return is_call;
  };
  const bool is_valid =
      parsed->is_array()
          ? !parsed->items.empty() && std::all_of(parsed->items.begin(), parsed->items.end(), take)
          : take(*parsed);
  for (std::size_t i = 0; is_valid && i < found.size(); ++i) {
    begin_call(found[i].first, out);
    add_arguments(found[i].second, out);
  }
  return is_valid;
}

void call_parser::begin_call(std::string_view name, call_delta& out) {
  out.calls.push_back({calls_++, std::string(name), {}});
}

void call_parser::add_arguments(std::string_view text, call_delta& out) {
  const auto index = calls_ - 1;
  if (out.calls.empty() || out.calls.back().index != index) {
    out.calls.push_back({index, {}, {}});
  }
  out.calls.back().arguments += text;
}

bool call_parser::step_arguments(call_delta& out) {
  auto now = json_scanner::verdict::more;
  std::size_t end = 0;
  while (end < buffer_.size() && now == json_scanner::verdict::more) {
    now = scanner_.next(buffer_[end]);
    end += now == json_scanner::verdict::bad ? 0 : 1;
  }
  if (end > 0) {
    add_arguments(std::string_view(buffer_).substr(0, end), out);
    buffer_.erase(0, end);
  }
  if (now == json_scanner::verdict::more) {
    return false;
  }
  is_behind_call_ = true;
  state_ = state::tail;
  return true;
}

bool call_parser::step_tail(call_delta&) {
  const auto tail = fmt::format("}}{}", row_.call_close);
  if (buffer_.starts_with(tail)) {
    buffer_.erase(0, tail.size());
    state_ = row_.mark.empty() ? state::next : state::text;
    return true;
  }
  if (tail.starts_with(buffer_)) {
    return false;
  }
  state_ = state::plain; // impossible under the grammar, but no text is lost
  return true;
}

// After a call without a mark: another call, the end of the list, or text.
bool call_parser::step_next(call_delta&) {
  const auto at = behind_space(buffer_, 0);
  if (at == buffer_.size()) {
    return false;
  }
  const auto separator = row_.between.front();
  const bool has_list = !row_.list_open.empty();
  if (how_->is_constrained && has_list && buffer_.starts_with(row_.between)) {
    buffer_.erase(0, row_.between.size());
    enter_call(0);
  } else if (how_->is_constrained && has_list && buffer_.starts_with(row_.list_close)) {
    buffer_.erase(0, row_.list_close.size());
    state_ = state::plain;
  } else if (how_->is_constrained && has_list && row_.between.starts_with(buffer_)) {
    return false;
  } else if (!has_list && buffer_[at] == separator) {
    enter_call(at + 1);
  } else {
    state_ = state::plain;
  }
  return true;
}

void call_parser::finish(call_delta& out) {
  while (state_ == state::call && take_held(/*is_over=*/true, out)) {
    while (step(out)) {
    }
  }
  const bool is_format =
      state_ == state::tail || (is_behind_call_ && behind_space(buffer_, 0) == buffer_.size());
  if (is_format) {
    buffer_.clear();
  } else {
    give(buffer_.size(), out);
  }
}

call_delta read_calls(std::string_view text, std::shared_ptr<const call_reading> how) {
  call_delta all;
  call_parser parser(std::move(how));
  parser.add(text, all);
  parser.finish(all);
  return all;
}

} // namespace baton::gateway
