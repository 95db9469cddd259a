// POST /generate as vLLM's api_server has it (vllm/entrypoints/api_server.py): {"prompt", "stream"}
// and sampling parameters in, {"text": [prompt + answer, ...]} out; as a stream one such object a
// line, each with all of the text so far. TGI's /generate has `inputs` in place of `prompt`. Pure.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/base/speaker.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct vllm_generate {
  generate request;
  std::string prompt;
  bool is_stream = false;
  field_words words;
};

// Nothing if the body has no `prompt`: then it is TGI's. The fields are those of completions, but
// for what has no place in the answer. Errors: as parse_generation.
std::optional<result<vllm_generate>> parse_vllm_generate(std::string_view body,
                                                         const request_limits& limits);

// {"text": [...]}, one text for each choice.
class vllm_whole final : public whole_speaker {
public:
  explicit vllm_whole(const vllm_generate& call)
      : texts_(call.request.choices, call.prompt), choices_left_(call.request.choices) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return choices_left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::vector<std::string> texts_;
  std::uint32_t choices_left_;
};

// One line for whatever has come since the last one was sent: a line that waits is replaced by the
// next, which says all that it did. An error is a line as well, the last one: {"error": {...}}.
class vllm_lines final : public event_speaker {
public:
  explicit vllm_lines(const vllm_generate& call)
      : texts_(call.request.choices, call.prompt), choices_left_(call.request.choices) {}
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // nobody is told of the ticket
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  std::vector<std::string> texts_;
  std::uint32_t choices_left_;
  std::size_t line_begin_ = 0; // of the last line in `out`,
  std::size_t line_end_ = 0;   // as long as that ends there
  bool has_ended_ = false;
};

} // namespace baton::gateway
