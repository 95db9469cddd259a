// From the hidden states of a prompt's rows, behind the final norm, to its embedding. Used by the
// last stage of every engine that makes embeddings.
//
// The bits do not depend on how the prompt was cut: each value is one float, to which each row is
// added alone and in the order of positions. What has come to it so far goes out and comes back
// with the next chunk as that same float, so the additions, and how each is rounded, are those of a
// prompt in one piece. (Sums of chunks, added up at the end, would be rounded otherwise.)
#pragma once

#include "schema/step.hpp"

#include <span>

namespace baton::engine {

class pooler {
public:
  // Requires: valid for rows of `hidden_size` (validate). Both may go afterwards.
  pooler(const pool& how, const slice& of, std::size_t hidden_size);

  // The slice's rows, one after the other. [hidden]
  void add(std::span<const float> row);
  // Requires: all rows were added.
  pooled finish() &&;

private:
  pooling how_;
  bool is_last_;
  std::uint32_t position_; // of the next row
  std::uint32_t end_;
  std::vector<float> values_; // [hidden], or empty
};

// Scales it to length 1; zeros stay. The length is summed up in double, in order.
void normalise(std::span<float> values) noexcept;

} // namespace baton::engine
