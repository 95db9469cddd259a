// Triton's raw binary request: a body that is the bytes of a model's one input and nothing else.
// Its shape is what the model declares, as far as the bytes leave no choice. Pure.
#pragma once

#include "gateway/state/worker_facts.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <string_view>

namespace baton::gateway {

// BYTES are one element of the shape [1]; of anything else one dimension at most may be open.
// `is_batched`: a batch of one. Errors: invalid_value, with the input's name.
result<tensor> tensor_of_raw(const worker_tensor& of, bool is_batched, std::string_view body);

} // namespace baton::gateway
