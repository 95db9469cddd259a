// A worker model's answer in the words of the KServe v2 protocol: tensors in JSON or bytes (infer),
// members of one JSON object (generate), whole or as events, and what gRPC's messages are made of.
// Pure.
//
// A piece is a response. The end of an answer that comes as a piece of its own, with nothing in it,
// is none: so do decoupled models of Triton end.
#pragma once

#include "gateway/api/kserve/kserve_worker.hpp"
#include "gateway/workers/worker_speaker.hpp"

#include <string>

namespace baton::gateway {

bool is_response(const inferred& piece) noexcept;
// Only the outputs that were asked for. Errors: handler_failed (a body, tensors that are none).
result<inferred> checked_response(const kserve_worker_shape& shape, inferred piece);

// infer: one response, with the bytes of tensors behind the JSON where that is asked for; or
// generate: one response, as members. Errors of take: invalid_request, if there is a second one;
// what JSON has no words for.
class kserve_worker_whole final : public worker_speaker {
public:
  explicit kserve_worker_whole(kserve_worker_shape shape) : shape_(std::move(shape)) {}
  result<std::string> take(inferred piece) override;
  http_reply head() const override { return head_; }
  bool goes_piecewise() const noexcept override { return false; }

private:
  kserve_worker_shape shape_;
  http_reply head_;
  bool has_told_ = false;
};

// generate_stream: an event for each response.
class kserve_worker_events final : public worker_speaker {
public:
  explicit kserve_worker_events(kserve_worker_shape shape) : shape_(std::move(shape)) {}
  result<std::string> take(inferred piece) override;
  http_reply head() const override;
  bool goes_piecewise() const noexcept override { return true; }
  std::string last_words(const error& e) const override;

private:
  kserve_worker_shape shape_;
};

// Of gRPC. Requires: checked_response.
grpc_inferred grpc_response_of(const kserve_worker_shape& shape, inferred piece);
error several_responses(const kserve_worker_shape& shape);

} // namespace baton::gateway
