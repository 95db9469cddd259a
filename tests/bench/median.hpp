// The median of what a bench has measured.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace baton {

// Of an even number of values the higher one in the middle. Requires: there is one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace baton
