// A short form of sampling defaults for tests.
#pragma once

#include "schema/sampling_defaults.hpp"

namespace baton::testing {

// In the order of the struct's fields.
inline sampling_defaults drawn(std::optional<float> temperature,
                               std::optional<std::int32_t> top_k = {},
                               std::optional<float> top_p = {}, std::optional<float> min_p = {},
                               std::optional<float> repetition_penalty = {},
                               std::optional<std::uint32_t> max_tokens = {}) {
  return {temperature, top_k, top_p, min_p, repetition_penalty, max_tokens};
}

} // namespace baton::testing
