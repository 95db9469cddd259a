#include "runtime/engine/pooling.hpp"

#include "schema/ensure.hpp"

#include <cmath>

namespace baton::engine {

pooler::pooler(const pool& how, const slice& of, std::size_t hidden_size)
    : how_(how.how), is_last_(how.is_last), position_(of.position), end_(of.position + of.rows),
      values_(how.before) {
  if (how_ == pooling::mean && values_.empty())
    values_.resize(hidden_size); // + 0.0: -0.0 becomes 0.0, in every chunking
  ENSURE(how_ == pooling::last || position_ == 0 || values_.size() == hidden_size,
         "rows before position {} came to {} values", position_, values_.size());
}

void pooler::add(std::span<const float> row) {
  const std::uint32_t position = position_++;
  ENSURE(position < end_, "row {} of a slice that ends at {}", position, end_);
  if (how_ == pooling::mean) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] += row[i];
    return;
  }
  const bool is_it = how_ == pooling::cls ? position == 0 : is_last_ && position_ == end_;
  if (is_it)
    values_.assign(row.begin(), row.end());
}

// The sum is not divided by the row count, because normalisation makes that redundant.
pooled pooler::finish() && {
  ENSURE(position_ == end_, "{} rows of a slice are missing", end_ - position_);
  if (is_last_)
    normalise(values_);
  return {std::move(values_)};
}

void normalise(std::span<float> values) noexcept {
  double squares = 0;
  for (const float v : values)
    squares += double{v} * double{v};
  if (squares == 0)
    return;
  const double length = std::sqrt(squares);
  for (float& v : values)
    v = static_cast<float>(v / length);
}

} // namespace baton::engine
