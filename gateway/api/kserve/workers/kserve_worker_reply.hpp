// A worker model's answer in the format of the KServe v2 protocol: tensors in JSON or bytes
// (infer), members of a JSON object (generate), whole or as events. Also the content of gRPC
// messages. Pure.
//
// A piece is a response. An empty final piece is not: decoupled Triton models end that way.
#pragma once

#include "gateway/api/kserve/workers/kserve_worker.hpp"
#include "gateway/request/response_writer.hpp"

#include <string>

namespace baton::gateway {

bool is_response(const inferred& piece) noexcept;
// Keeps only the requested outputs. Errors: handler_failed (a body, invalid tensors).
result<inferred> checked_response(const kserve_worker_shape& shape, inferred piece);

// infer: one response, with tensor bytes after the JSON if requested. generate: one response, as
// members. Errors of take: invalid_request for a second response; values that JSON cannot
// represent.
class kserve_worker_unary final : public worker_writer {
public:
  explicit kserve_worker_unary(kserve_worker_shape shape) : shape_(std::move(shape)) {}
  result<std::string> take(inferred piece) override;
  http_reply head() const override { return head_; }
  bool is_streamed() const noexcept override { return false; }

private:
  kserve_worker_shape shape_;
  http_reply head_;
  bool has_answered_ = false;
};

// generate_stream: an event for each response.
class kserve_worker_events final : public worker_writer {
public:
  explicit kserve_worker_events(kserve_worker_shape shape) : shape_(std::move(shape)) {}
  result<std::string> take(inferred piece) override;
  http_reply head() const override;
  bool is_streamed() const noexcept override { return true; }
  std::string failure_tail(const error& e) const override;

private:
  kserve_worker_shape shape_;
};

// For gRPC. Requires: checked_response.
grpc_inferred grpc_response_of(const kserve_worker_shape& shape, inferred piece);
error several_responses(const kserve_worker_shape& shape);

} // namespace baton::gateway
