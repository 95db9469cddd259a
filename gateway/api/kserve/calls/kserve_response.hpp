// Answers in the format of the KServe v2 protocol: tensors in JSON or bytes (infer), or members of
// a JSON object (generate), whole or as events. Pure.
#pragma once

#include "gateway/api/kserve/calls/kserve_request.hpp"
#include "gateway/request/response_writer.hpp"
#include "schema/messages.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

struct kserve_tensor {
  const tensor_row* row;
  tensor_values values; // one per choice
  bool is_binary = false;
};

// Collects chunks until a response takes them, as in Triton's vLLM backend.
class kserve_gatherer {
public:
  explicit kserve_gatherer(kserve_shape shape);
  // Requires: failure_of(c) is nothing.
  void add(const chunk& c);
  bool is_complete() const noexcept { return choices_left_ == 0; }
  // The requested outputs, with the content since the previous response.
  std::vector<kserve_tensor> take();
  const kserve_shape& shape() const noexcept { return shape_; }

private:
  struct choice_text {
    std::string text; // since the last response, as all fields but the sum and the end
    std::vector<token_detail> details;
    std::uint32_t tokens = 0;
    double logprob_sum = 0;
    finish how = finish::none;
  };
  json value_of(kserve_output which, const choice_text& choice) const;

  kserve_shape shape_;
  std::vector<choice_text> choices_;
  std::uint32_t choices_left_;
  std::uint32_t prompt_tokens_ = 0;
};

class kserve_unary final : public unary_writer {
public:
  explicit kserve_unary(kserve_shape shape) : gatherer_(std::move(shape)) {}
  void add(chunk c) override { gatherer_.add(c); }
  bool is_complete() const noexcept override { return gatherer_.is_complete(); }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  kserve_gatherer gatherer_;
};

// `data: {"model_name","model_version","text_output", ...}` for each chunk, or once at the end if
// `stream` is not set.
class kserve_events final : public stream_writer {
public:
  explicit kserve_events(kserve_shape shape) : gatherer_(std::move(shape)) {}
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // the format has no ticket
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  kserve_gatherer gatherer_;
  bool has_ended_ = false;
};

} // namespace baton::gateway
