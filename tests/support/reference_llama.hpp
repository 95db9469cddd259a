// A llama forward pass in the plainest form: dequantised weights, float32 with double sums, no
// cache, no threads. Engines are compared with it, within a tolerance that their tests state. Test
// code only.
#pragma once

#include "runtime/model/description.hpp"
#include "runtime/model/gguf/gguf.hpp"

#include <vector>

namespace baton::testing {

// Hidden states after the final norm, [position][hidden], for every position of `tokens`. Requires:
// the description has no features beyond the plain llama family and its experts.
std::vector<std::vector<float>> reference_hidden(const model::gguf_file& file,
                                                 const model::description& model,
                                                 const std::vector<std::int32_t>& tokens);
// The same as logits, [position][vocabulary].
std::vector<std::vector<float>> reference_logits(const model::gguf_file& file,
                                                 const model::description& model,
                                                 const std::vector<std::int32_t>& tokens);

} // namespace baton::testing
