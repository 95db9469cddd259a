// Answers of gpt-oss, OpenAI's harmony format: messages with a header that names their channel.
//
//   <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
//
// `analysis` is reasoning; `final`, and `commentary` to the user, are the answer. A call of a
// function, with its header in any order, becomes the text that call_style.hpp describes. Anything
// else is text as it is.
#pragma once

#include "gateway/api/openai/calls/answer_parser.hpp"

#include <string>
#include <string_view>

namespace baton::gateway {

//   header --<|message|>--> reasoning | answer | call --<|end|>, <|call|>--> header
//     +--anything that is no header--> plain            or the next header
class channel_parser final : public reasoning_reader {
public:
  // `is_inside`: the prompt has opened the reasoning.
  explicit channel_parser(bool is_inside)
      : at_(is_inside ? state::reasoning : state::header), is_thinking_(is_inside) {}

  void add(std::string_view piece, std::string& reasoning, std::string& answer) override;
  void finish(std::string& reasoning, std::string& answer) override;
  bool is_thinking() const noexcept override { return is_thinking_; }

private:
  enum class state : std::uint8_t { header, reasoning, answer, call, plain };
  bool step(std::string& reasoning, std::string& answer); // false: needs more text
  bool step_header(std::string& reasoning, std::string& answer);
  bool step_message(std::string& to);
  void open(std::string_view header, std::string& reasoning, std::string& answer);

  state at_;
  bool is_thinking_; // the header of the answer has not come
  bool has_reasoning_ = false, has_answer_ = false;
  std::string buffer_; // not yet emitted
};

} // namespace baton::gateway
