// Calls of tools in the text of an answer, found while it comes: pieces of text in, text and parts
// of calls out. Pure; what it has given out is a function of the text so far, however that was cut
// into pieces, so a stream that is gone on with gets what it would have got.
//
//   begin --opens a list--> call --whole, valid--> next --another--> call
//     |                      |  |                    +--anything else--> plain
//     |                      |  +--the grammar's words--> arguments --> tail --> next
//     +--anything else--> plain <--no call after all: it is text--+
//
// With a format that marks its calls, text stands for begin, next and plain, and mark for opens.
//
// A call is given out when it is whole and valid: what turns out to be none is text, nothing is
// lost. Under a grammar, which lets nothing else through, the arguments come as they are drawn.
// White space before a call, and behind the last one, belongs to it.
//
// Models of all families write calls as fenced blocks, too: a line of ``` or ```json, one call or a
// list of them, ```. So in text and plain a block like that is a call, if it has nothing else in it
// and names a tool that was given; any other block is text. Not under a grammar: such a call would
// have been drawn without it.
#pragma once

#include "runtime/text/call_style.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// How an answer's calls are to be read.
struct call_reading {
  call_format format = call_format::hermes;
  std::vector<std::string> names; // of the tools: letters, digits, '_' and '-'
  bool is_constrained = false;    // the answer is drawn under the grammar of these calls
};

// What a piece of text has brought.
struct call_delta {
  struct part {
    std::uint32_t index = 0; // of the call in its answer
    std::string name;        // with its first part
    std::string arguments;   // JSON, the next piece of it
  };
  std::string text;
  std::vector<part> calls; // at most one of each call
  bool is_empty() const noexcept { return text.empty() && calls.empty(); }
};

// Where a JSON value ends, by its brackets and strings alone.
class json_scanner {
public:
  enum class verdict : std::uint8_t { more, done, bad };
  verdict next(char c) noexcept;

private:
  std::uint32_t depth_ = 0;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
};

class call_parser {
public:
  explicit call_parser(std::shared_ptr<const call_reading> how);

  void add(std::string_view piece, call_delta& out);
  // The answer is over: what was held back is text, or a call that lacks its end mark alone.
  void finish(call_delta& out);
  std::uint32_t calls() const noexcept { return calls_; } // so far

private:
  enum class state : std::uint8_t { begin, text, call, arguments, tail, next, plain };
  enum class match : std::uint8_t { no, partly, whole };

  bool step(call_delta& out); // false: nothing to do before more text comes
  bool step_begin();
  bool step_text(call_delta& out);
  std::size_t find_fence(std::size_t before) const noexcept;
  bool step_fence(std::size_t at, call_delta& out);
  bool step_call(call_delta& out);
  bool step_arguments(call_delta& out);
  bool step_tail(call_delta& out);
  bool step_next(call_delta& out);

  match begin_by_grammar(call_delta& out);
  bool take_calls(std::string_view value, call_delta& out);
  bool take_held(bool is_over, call_delta& out);
  void refuse_call(call_delta& out);
  void enter_call(std::size_t json_at, bool is_fenced = false);
  // Where text is given out, and calls are looked for.
  state outside() const noexcept { return row_.mark.empty() ? state::plain : state::text; }
  void give(std::size_t bytes, call_delta& out);
  void begin_call(std::string_view name, call_delta& out);
  void add_arguments(std::string_view text, call_delta& out);

  std::shared_ptr<const call_reading> how_;
  const text::call_row& row_;
  state state_;
  std::string buffer_;      // not given out yet
  std::size_t json_at_ = 0; // in buffer_: where a call's JSON may begin, with white space before it
  std::size_t scanned_ = 0; // of buffer_, of that JSON
  json_scanner scanner_;
  std::uint32_t calls_ = 0;
  bool is_behind_call_ = false; // no text since
  bool is_fenced_ = false;      // the call that is read is in a fenced block
  bool is_held_ = false;        // it does not begin with the grammar's words
  bool is_in_block_ = false;    // text: of a fenced block that is no call
  bool begins_line_ = true;     // buffer_ does
};

// Of an answer that has come as a whole.
call_delta read_calls(std::string_view text, std::shared_ptr<const call_reading> how);

} // namespace baton::gateway
