// POST /generate as in vLLM's api_server (vllm/entrypoints/api_server.py): {"prompt", "stream"} and
// sampling parameters in, {"text": [prompt + answer, ...]} out. A stream has one such object a
// line, each with the whole text so far. TGI's /generate has `inputs` instead of `prompt`. Pure.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/response_writer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct vllm_generate {
  generate request;
  std::string prompt;
  bool is_stream = false;
  field_names client_names;
};

// Nothing if the body has no `prompt`: it is TGI's then. The fields are those of completions,
// except those without a counterpart in the answer. Errors: as parse_generation.
std::optional<result<vllm_generate>> parse_vllm_generate(std::string_view body,
                                                         const request_limits& limits);

// {"text": [...]}, one text for each choice.
class vllm_unary final : public unary_writer {
public:
  explicit vllm_unary(const vllm_generate& call)
      : texts_(call.request.terms.choices, call.prompt), choices_left_(call.request.terms.choices) {
  }
  void add(chunk c) override;
  bool is_complete() const noexcept override { return choices_left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::vector<std::string> texts_;
  std::uint32_t choices_left_;
};

// A line for all text since the last line sent. A line not yet sent is replaced by the next one,
// which contains its text. An error is the last line: {"error": {...}}.
class vllm_lines final : public stream_writer {
public:
  explicit vllm_lines(const vllm_generate& call)
      : texts_(call.request.terms.choices, call.prompt), choices_left_(call.request.terms.choices) {
  }
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // the format has no ticket
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  std::vector<std::string> texts_;
  std::uint32_t choices_left_;
  std::size_t line_begin_ = 0; // of the last line in `out`
  std::size_t line_end_ = 0;   // valid while `out` ends there
  bool has_ended_ = false;
};

} // namespace baton::gateway
