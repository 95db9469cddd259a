// The experts of gpt-oss as floats: transformers stores [experts, in, out], where all other
// matrices have their inputs last.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"

namespace baton::model {

// Rows of the outputs, in the stored type. Errors: bad_model_file (names the tensor).
result<matrix_pointer> transposed(const stored_tensor& stored);

} // namespace baton::model
