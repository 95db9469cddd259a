#include "gateway/api/openai/calls/call_parser.hpp"

#include "runtime/grammar/json_schema/json_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::string_view fence = "```";
// Languages of blocks that may hold calls; a block without a language may too.
constexpr std::array<std::string_view, 2> block_names{"json", "tool_call"};

// Where a mark begins in a text, or may begin at its end.
struct found_mark {
  std::size_t at = std::string::npos, bytes = 0; // the first whole one
  std::size_t sure = 0;                          // the text up to here has none
};

found_mark find_mark(std::string_view text, const text::call_row& row) {
  found_mark out{.sure = text.size()};
  for (const auto mark : {row.mark, row.other_mark}) {
    if (mark.empty()) {
      continue;
    }
    if (const auto at = text.find(mark); at < out.at) {
      out.at = at;
      out.bytes = mark.size();
    }
    out.sure = std::min(out.sure, text.size() - held_of(text, mark));
  }
  out.sure = std::min(out.sure, out.at);
  return out;
}

} // namespace

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
  case state::written:
    return step_written(/*is_over=*/false, out);
  case state::closing:
    return step_closing();
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
  is_held_ = is_next_ = false;
  json_at_ = scanned_ = json_at;
  scanner_ = {};
}

void call_parser::enter_written(std::size_t call_at, std::size_t mark_bytes) {
  state_ = state::written;
  is_fenced_ = false;
  call_at_ = call_at;
  mark_bytes_ = mark_bytes;
  reader_ = make_call_reader(*how_);
  reader_calls_ = reader_bytes_ = 0;
}

// A list stands at the start of an answer, possibly after its lead token.
bool call_parser::step_begin() {
  const auto at = behind_space(buffer_, 0);
  const auto rest = std::string_view(buffer_).substr(at);
  if (rest.empty()) {
    return false;
  }
  const bool is_json = row_.syntax == text::call_syntax::json;
  if (rest.starts_with(row_.lead)) {
    is_json ? enter_call(at + row_.lead.size()) : enter_written(at + row_.lead.size(), 0);
    return true;
  }
  if (row_.lead.starts_with(rest)) {
    return false;
  }
  const char opens = row_.list_open.empty() ? '{' : row_.list_open.front();
  if (rest.front() == opens) {
    is_json ? enter_call(at) : enter_written(at, 0);
  } else {
    state_ = state::plain;
  }
  return true;
}

// Emits the text up to a mark or a fence, whichever comes first. Keeps a possible beginning of one,
// with the white space before it.
bool call_parser::step_text(call_delta& out) {
  const bool seeks_mark = state_ == state::text; // plain: after a list, or after a failed call
  const auto mark = seeks_mark ? find_mark(buffer_, row_) : found_mark{.sure = buffer_.size()};
  const bool has_mark = mark.at != std::string::npos;
  auto keep = mark.sure;
  const auto block = find_fence(keep);
  const bool has_block = block < keep;
  keep = std::min(keep, block);
  while (keep > 0 && call_space.find(buffer_[keep - 1]) != std::string_view::npos) {
    --keep;
  }
  if (keep > 0) {
    give(keep, out);
  }
  if (has_block) {
    return step_fence(block - keep, out);
  }
  if (has_mark && row_.syntax == text::call_syntax::json) {
    enter_call(mark.at - keep + mark.bytes);
  } else if (has_mark) {
    enter_written(mark.at - keep, mark.bytes);
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
  name = name.substr(0, name.find_last_not_of(call_space) + 1);
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
  auto open = std::string(is_next_ ? "" : row_.list_open);
  open += row_.call_open;
  open.erase(0, is_next_ ? 0 : row_.mark.size()); // the mark is before json_at_
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

// Under the grammar, calls are given as they are read.
bool call_parser::step_written(bool is_over, call_delta& out) {
  const auto now = reader_->read(std::string_view(buffer_).substr(call_at_), is_over);
  if (how_->is_constrained || now == call_reader::verdict::whole) {
    give_read(out);
  }
  if (now == call_reader::verdict::more) {
    return false;
  }
  if (now == call_reader::verdict::bad) {
    state_ = outside();
    const auto marked = call_at_ + mark_bytes_;
    if (reader_calls_ > 0) { // the rest of what begins like a call, under the grammar
      buffer_.erase(0, call_at_ + reader_->size());
    } else if (mark_bytes_ > 0) {
      give(marked, out);
    }
    return true;
  }
  buffer_.erase(0, call_at_ + reader_->size());
  begins_line_ = false;
  is_behind_call_ = true;
  state_ = state::closing;
  return true;
}

void call_parser::give_read(call_delta& out) {
  for (std::size_t i = reader_calls_ > 0 ? reader_calls_ - 1 : 0; i < reader_->calls().size();
       ++i) {
    const auto& call = reader_->calls()[i];
    if (i == reader_calls_) {
      begin_call(call.name, out);
      ++reader_calls_;
      reader_bytes_ = 0;
    }
    if (call.arguments.size() > reader_bytes_) {
      add_arguments(std::string_view(call.arguments).substr(reader_bytes_), out);
      reader_bytes_ = call.arguments.size();
    }
  }
}

// Behind a call: the end of its list, if there is one.
bool call_parser::step_closing() {
  std::size_t at = 0;
  const auto found = match_loosely(buffer_, at, row_.list_close);
  if (found == text_match::partly) {
    return false;
  }
  buffer_.erase(0, found == text_match::whole ? at : 0);
  state_ = outside();
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
  if (row_.mark.empty() || is_next_) { // no mark is before it
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
    state_ = row_.mark.empty() || !row_.list_open.empty() ? state::next : state::text;
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
    is_next_ = true;
  } else if (how_->is_constrained && has_list && buffer_.starts_with(row_.list_close)) {
    buffer_.erase(0, row_.list_close.size());
    state_ = outside();
  } else if (how_->is_constrained && has_list && row_.between.starts_with(buffer_)) {
    return false;
  } else if (!has_list && buffer_[at] == separator) {
    enter_call(at + 1);
  } else {
    state_ = outside();
  }
  return true;
}

void call_parser::finish(call_delta& out) {
  const auto is_taken = [&] {
    return (state_ == state::call && take_held(/*is_over=*/true, out)) ||
           (state_ == state::written && step_written(/*is_over=*/true, out));
  };
  while (is_taken()) {
    while (step(out)) {
    }
  }
  const bool is_cut = state_ == state::written && reader_calls_ > 0; // under the grammar
  const bool is_format = state_ == state::tail || is_cut || state_ == state::closing ||
                         (is_behind_call_ && behind_space(buffer_, 0) == buffer_.size());
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
