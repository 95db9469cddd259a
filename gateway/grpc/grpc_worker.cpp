// Worker models over gRPC: converts messages of KServe v2 and TorchServe to requests, and pieces of
// answers back.
#include "gateway/api/kserve/calls/kserve_error.hpp"
#include "gateway/api/kserve/workers/kserve_worker_reply.hpp"
#include "gateway/api/torchserve/torchserve_worker.hpp"
#include "gateway/grpc/grpc_api.hpp"

namespace baton::gateway {
namespace {

// ModelInfer: one response.
class worker_infer_answer final : public grpc_answer {
public:
  worker_infer_answer(kserve_worker_shape shape, const grpc_codec& codec)
      : shape_(std::move(shape)), codec_(codec) {}

  result<void> take(inferred piece, std::vector<std::string>& out) override {
    const bool is_last = piece.is_last;
    const bool is_alone = is_last && !message_; // an end without outputs is a response of its own
    if (is_response(piece) || is_alone) {
      if (message_) {
        return several_responses(shape_);
      }
      auto response = checked_response(shape_, std::move(piece));
      if (!response) {
        return response.error();
      }
      message_ = codec_.infer_response(grpc_response_of(shape_, *std::move(response)));
    }
    if (is_last) {
      out.push_back(*std::move(message_));
      has_ended_ = true;
    }
    return {};
  }
  bool has_ended() const noexcept override { return has_ended_; }

private:
  kserve_worker_shape shape_;
  const grpc_codec& codec_;
  std::optional<std::string> message_;
  bool has_ended_ = false;
};

// ModelStreamInfer: one response for each piece; the last is marked final. An end without outputs
// is sent only to clients that requested it.
class worker_stream_answer final : public grpc_answer {
public:
  worker_stream_answer(kserve_worker_shape shape, const grpc_codec& codec)
      : shape_(std::move(shape)), codec_(codec) {}

  result<void> take(inferred piece, std::vector<std::string>& out) override {
    const bool is_last = piece.is_last;
    if (is_response(piece)) {
      auto response = checked_response(shape_, std::move(piece));
      if (!response) {
        return response.error();
      }
      auto reply = grpc_response_of(shape_, *std::move(response));
      reply.is_final = is_last;
      out.push_back(codec_.stream_response(reply, {}));
    } else if (shape_.has_empty_end) {
      grpc_inferred end{.model = shape_.model,
                        .version = shape_.version,
                        .id = shape_.id,
                        .is_final = true,
                        .outputs = {}};
      out.push_back(codec_.stream_response(end, {}));
    }
    has_ended_ = is_last;
    return {};
  }
  bool has_ended() const noexcept override { return has_ended_; }
  std::optional<std::string> failure(const error& e) const override {
    const grpc_inferred about{.model = shape_.model,
                              .version = shape_.version,
                              .id = shape_.id,
                              .is_final = std::nullopt,
                              .outputs = {}};
    return codec_.stream_response(about, grpc_text(kserve_message(e)));
  }

private:
  kserve_worker_shape shape_;
  const grpc_codec& codec_;
  bool has_ended_ = false;
};

// TorchServe: a message for each piece, or one for all of them.
class worker_prediction_answer final : public grpc_answer {
public:
  worker_prediction_answer(bool is_stream, const grpc_codec& codec)
      : is_stream_(is_stream), codec_(codec) {}

  result<void> take(inferred piece, std::vector<std::string>& out) override {
    if (auto ok = check_prediction(piece); !ok) {
      return ok;
    }
    has_ended_ = piece.is_last;
    if (is_stream_) {
      if (!piece.body.empty() || (has_ended_ && !has_answered_)) {
        out.push_back(codec_.prediction(piece.body));
        has_answered_ = true;
      }
      return {};
    }
    whole_ += piece.body;
    if (whole_.size() > worker_prediction_bytes_max) {
      return fail(errc::handler_failed, "the answer has more than {} bytes: use StreamPredictions",
                  worker_prediction_bytes_max);
    }
    if (has_ended_) {
      out.push_back(codec_.prediction(whole_));
    }
    return {};
  }
  bool has_ended() const noexcept override { return has_ended_; }

private:
  bool is_stream_;
  const grpc_codec& codec_;
  std::string whole_;
  bool has_answered_ = false;
  bool has_ended_ = false;
};

} // namespace

grpc_plan plan_worker_infer(const worker_view& of, kserve_route route, grpc_infer received,
                            const grpc_codec& codec) {
  auto version = received.version;
  auto read = read_worker_infer(of, route, std::move(received));
  if (!read) {
    return read.error();
  }
  grpc_worker_request out;
  out.request = std::move(read->request);
  out.request.version = std::move(version);
  if (route == kserve_route::stream_infer) {
    out.answer = std::make_unique<worker_stream_answer>(std::move(read->shape), codec);
  } else {
    out.answer = std::make_unique<worker_infer_answer>(std::move(read->shape), codec);
  }
  return out;
}

grpc_plan plan_worker_prediction(const worker_view& of, const grpc_method& method,
                                 grpc_prediction received, const grpc_codec& codec,
                                 gateway_state& facts) {
  auto request = read_worker_prediction(of, received.version, std::move(received.input));
  if (!request) {
    return request.error();
  }
  const bool is_stream = method.shape == grpc_shape::server_stream;
  grpc_worker_request out;
  out.request = *std::move(request);
  out.answer = std::make_unique<worker_prediction_answer>(is_stream, codec);
  // As TorchServe documents: a handler that streams may name only one request.
  out.goes_alone = is_stream;
  out.busy_model = of.name;
  out.ended_well = begin_prediction(facts, of.name, received.version);
  return out;
}

} // namespace baton::gateway
