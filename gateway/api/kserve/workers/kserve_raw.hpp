// Triton's raw binary request: the body is the bytes of a model's only input. The shape is the
// declared one; the size of the body fixes the open dimension. Pure.
#pragma once

#include "gateway/state/worker_facts.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <string_view>

namespace baton::gateway {

// BYTES are one element of the shape [1]; other types may have at most one open dimension.
// `is_batched`: a batch of one. Errors: invalid_value, with the input's name.
result<tensor> tensor_of_raw(const worker_tensor& of, bool is_batched, std::string_view body);

} // namespace baton::gateway
