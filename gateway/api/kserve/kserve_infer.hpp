// A language model that is asked as worker models are: `infer` of the ZeroMQ door, with the tensors
// of Triton's vLLM backend, and pieces of tensors back. So a handler in any language, and a
// model.py that calls "vllm", need no words of their own for it. Pure.
#pragma once

#include "gateway/api/kserve/kserve_response.hpp"
#include "schema/inference.hpp"

#include <optional>
#include <string_view>

namespace baton::gateway {

// As ModelStreamInfer of gRPC: one piece, or with `stream` one for what comes. `model`: the card's.
// Its deadline is what the parameter `timeout` says, not yet that of the message.
// Errors: invalid_request, invalid_value, unsupported_parameter, with the name as param.
result<kserve_generate> read_language_infer(const infer& said, std::string_view model,
                                            const gateway_config& config);

// What chunks bring, as pieces of an answer: numbered from 0, the last one marked.
class language_pieces {
public:
  explicit language_pieces(kserve_shape shape) : gatherer_(std::move(shape)) {}
  // Requires: failure_of(c) is nothing. Nothing: it brings no piece yet.
  std::optional<inferred> take(const chunk& c);
  bool has_ended() const noexcept { return gatherer_.is_complete(); }

private:
  kserve_gatherer gatherer_;
  std::uint32_t next_index_ = 0;
};

} // namespace baton::gateway
