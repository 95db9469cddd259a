// Splits the streamed text of a chat's answer into what the model thinks, text, and tool calls.
// Pure. The output depends only on the text so far, not on how it was split, so a resumed stream
// gets the same parts.
#pragma once

#include "gateway/api/openai/calls/call_parser.hpp"
#include "runtime/text/stream/reasoning_style.hpp"
#include "schema/messages.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// Separates what the model thinks from the answer.
class reasoning_reader {
public:
  virtual ~reasoning_reader() = default;
  virtual void add(std::string_view piece, std::string& reasoning, std::string& answer) = 0;
  // Ends the answer: pending text is what it is so far.
  virtual void finish(std::string& reasoning, std::string& answer) = 0;
  virtual bool is_thinking() const noexcept = 0;
};

// Separates the reasoning, up to its mark, from the answer behind it. White space at both ends of
// the reasoning belongs to neither.
//
//   lead --open mark--> begun --other than space--> inside --close mark--> gap
//     |                                                                      |
//     +--anything else--> answer <------------------other than space---------+
class reasoning_parser final : public reasoning_reader {
public:
  // `is_inside`: the prompt has the mark that opens.
  reasoning_parser(const text::reasoning_row& row, bool is_inside);

  void add(std::string_view piece, std::string& reasoning, std::string& answer) override;
  void finish(std::string& reasoning, std::string& answer) override;
  bool is_thinking() const noexcept override { return at_ == state::begun || at_ == state::inside; }

private:
  enum class state : std::uint8_t { lead, begun, inside, gap, answer };
  bool step(std::string& reasoning, std::string& answer); // false: needs more text
  bool skip_space();
  bool step_inside(std::string& reasoning);

  const text::reasoning_row& row_;
  state at_;
  std::string buffer_; // not yet emitted
};

// The reader of an answer. Without calls and reasoning all of it is text.
class answer_parser {
public:
  // `calls`: null if no tools may be called. Without `reads_reasoning`, reasoning stays text.
  answer_parser(const std::shared_ptr<const call_reading>& calls, bool reads_reasoning);

  // Text of this chunk, or the next part of it. The chunk says how the answer begins.
  void add(const chunk& c, std::string_view piece, call_delta& out);
  void finish(call_delta& out);
  // Adds the parts of a whole chunk to those before; the last chunk ends the answer.
  void collect(const chunk& c, call_delta& all);
  std::uint32_t calls() const noexcept { return calls_ ? calls_->calls() : 0; } // so far
  // Tokens of the reasoning, with its marks, so far. If it ends within a chunk of several tokens,
  // these are divided by their bytes.
  std::uint32_t reasoning_tokens() const noexcept { return reasoning_tokens_; }

private:
  std::size_t take(std::string_view piece, call_delta& out);

  std::optional<call_parser> calls_;
  std::unique_ptr<reasoning_reader> reasoning_; // null: none
  bool reads_reasoning_;
  bool has_begun_ = false;
  std::uint32_t tokens_ = 0; // of the chunks before
  std::uint32_t reasoning_tokens_ = 0;
};

// Adds the next parts of an answer to those before.
void append(call_delta& all, const call_delta& more);

} // namespace baton::gateway
