// Requests a language model with tensors, like a worker model: `infer` over ZeroMQ, with the
// tensors of Triton's vLLM backend. Handlers in any language, and a model.py that calls "vllm",
// need no other API. Pure.
#pragma once

#include "gateway/api/kserve/calls/kserve_response.hpp"
#include "schema/inference.hpp"

#include <optional>
#include <string_view>

namespace baton::gateway {

// As ModelStreamInfer of gRPC: one piece, or with `stream` a piece per chunk. `model`: the card's
// name. The deadline is only the parameter `timeout`, not the message's. Errors: invalid_request,
// invalid_value, unsupported_parameter, with the name as param.
result<kserve_generate> read_language_infer(const infer& given, std::string_view model,
                                            const gateway_config& config);

// Converts chunks to pieces of an answer, numbered from 0, with the last one marked.
class language_pieces {
public:
  explicit language_pieces(kserve_shape shape) : gatherer_(std::move(shape)) {}
  // Requires: failure_of(c) is nothing. Returns nothing if there is no piece yet.
  std::optional<inferred> take(const chunk& c);
  bool has_ended() const noexcept { return gatherer_.is_complete(); }

private:
  kserve_gatherer gatherer_;
  std::uint32_t next_index_ = 0;
};

} // namespace baton::gateway
