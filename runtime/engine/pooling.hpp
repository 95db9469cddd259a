// Turns the hidden states of a prompt's rows, after the final norm, into its embedding. Used by the
// last stage of every engine that supports embeddings.
//
// The result is bit-identical for every chunking: each value is one float to which rows are added
// one by one in order of positions. The partial sum leaves with one chunk and returns with the next
// as the same float, so all additions round as for an unchunked prompt. Summing per chunk would
// round differently.
#pragma once

#include "schema/step.hpp"

#include <span>

namespace baton::engine {

class pooler {
public:
  // Requires: valid for rows of `hidden_size` (see validate). Neither argument is kept.
  pooler(const pool& how, const slice& of, std::size_t hidden_size);

  // Adds the slice's next row. [hidden]
  void add(std::span<const float> row);
  // Requires: all rows have been added.
  pooled finish() &&;

private:
  pooling how_;
  bool is_last_;
  std::uint32_t position_; // of the next row
  std::uint32_t end_;
  std::vector<float> values_; // [hidden], or empty
};

// Scales a vector to length 1; zeros stay zero. Squares are summed in double, in order.
void normalise(std::span<float> values) noexcept;

} // namespace baton::engine
