// Finds tool calls in the streamed text of an answer: pieces of text in, text and parts of calls
// out. Pure. The output depends only on the text so far, not on how it was split, so a resumed
// stream gets the same calls.
//
//   begin --opens a list--> call --whole, valid--> next --another--> call
//     |                      |  |                    +--anything else--> plain
//     |                      |  +--the grammar's prefix--> arguments --> tail --> next
//     +--anything else--> plain <--not a call, but text-----------+
//
// If the format marks its calls, `text` replaces begin, next and plain, and a mark opens a call.
// Calls of other syntaxes than JSON objects are in `written`, which asks a call_reader.hpp, and
// then in `closing`, which drops the end of their list.
//
// A call is emitted when it is complete and valid; otherwise it is text, and nothing is lost. Under
// a grammar, which allows only calls, the arguments are emitted as they are generated. White space
// before a call and after the last one belongs to the call.
//
// Models of all families also write calls as fenced Markdown blocks, with or without the word json.
// In `text` and `plain`, a block is a call if it holds nothing but one call or a list of calls, and
// names a given tool. Any other block is text. This does not apply under a grammar.
#pragma once

#include "gateway/api/openai/calls/call_reader.hpp"
#include "runtime/text/stream/call_style.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The output for one piece of text.
struct call_delta {
  struct part {
    std::uint32_t index = 0; // of the call in its answer
    std::string name;        // only in its first part
    std::string arguments;   // the next piece of the JSON
  };
  std::string reasoning{}; // before all text and calls (answer_parser.hpp)
  std::string text{};
  std::vector<part> calls{}; // at most one part of each call
  bool is_empty() const noexcept { return reasoning.empty() && text.empty() && calls.empty(); }
};

class call_parser {
public:
  explicit call_parser(std::shared_ptr<const call_reading> how);

  void add(std::string_view piece, call_delta& out);
  // Ends the answer: pending text becomes text, or a call that lacks only its end mark.
  void finish(call_delta& out);
  std::uint32_t calls() const noexcept { return calls_; } // so far

private:
  enum class state : std::uint8_t {
    begin,
    text,
    call,
    arguments,
    tail,
    next,
    written,
    closing,
    plain
  };
  enum class match : std::uint8_t { no, partly, whole };

  bool step(call_delta& out); // false: needs more text
  bool step_begin();
  bool step_text(call_delta& out);
  std::size_t find_fence(std::size_t before) const noexcept;
  bool step_fence(std::size_t at, call_delta& out);
  bool step_call(call_delta& out);
  bool step_arguments(call_delta& out);
  bool step_tail(call_delta& out);
  bool step_next(call_delta& out);
  bool step_written(bool is_over, call_delta& out);
  bool step_closing();

  match begin_by_grammar(call_delta& out);
  bool take_calls(std::string_view value, call_delta& out);
  bool take_held(bool is_over, call_delta& out);
  void refuse_call(call_delta& out);
  void enter_call(std::size_t json_at, bool is_fenced = false);
  void enter_written(std::size_t call_at, std::size_t mark_bytes);
  void give_read(call_delta& out);
  // The state in which text is emitted and calls are searched.
  state outside() const noexcept { return row_.mark.empty() ? state::plain : state::text; }
  void give(std::size_t bytes, call_delta& out);
  void begin_call(std::string_view name, call_delta& out);
  void add_arguments(std::string_view text, call_delta& out);

  std::shared_ptr<const call_reading> how_;
  const text::call_row& row_;
  state state_;
  std::string buffer_;      // not yet emitted
  std::size_t json_at_ = 0; // in buffer_: start of a possible call's JSON, with white space
  std::size_t scanned_ = 0; // in buffer_: end of the scanned part of that JSON
  json_scanner scanner_;
  std::unique_ptr<call_reader> reader_; // in `written`
  std::size_t call_at_ = 0;             // in buffer_: where what it reads begins
  std::size_t mark_bytes_ = 0;          // of the mark there
  std::size_t reader_calls_ = 0;        // given of those that it has read
  std::size_t reader_bytes_ = 0;        // of the arguments of the last of these
  std::uint32_t calls_ = 0;
  bool is_behind_call_ = false; // no text since the last call
  bool is_fenced_ = false;      // the current call is in a fenced block
  bool is_held_ = false;        // it does not begin with the grammar's prefix
  bool is_next_ = false;        // it is not the first of its list
  bool is_in_block_ = false;    // inside a fenced block of text
  bool begins_line_ = true;     // buffer_ starts at the beginning of a line
};

// Reads the calls of a complete answer.
call_delta read_calls(std::string_view text, std::shared_ptr<const call_reading> how);

} // namespace baton::gateway
