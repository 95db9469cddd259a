// A model for plans: only its shape matters.
#pragma once

#include "tests/support/smollm2_shape.hpp"

namespace baton::cluster {

inline model::description small_model() {
  auto d = testing::smollm2_shape(2'200'000, 30'000'000);
  d.has_tied_embeddings = true;
  return d;
}

} // namespace baton::cluster
