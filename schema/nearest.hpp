// "Did you mean ...?": the valid name nearest to an unknown one, for configuration keys and request
// fields.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

// Levenshtein's edit distance, O(a.size() * b.size()).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      auto substitution = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row.back();
}

// The nearest of `valid`, or nothing if more than half the letters differ. Names longer than any
// valid one could be are not compared.
template <class Range>
std::optional<std::string_view> nearest_name(std::string_view unknown, const Range& valid) {
  constexpr std::size_t name_size_max = 64;
  if (unknown.size() > name_size_max)
    return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(unknown.size() / 2, 1) + 1;
  for (std::string_view name : valid)
    if (auto distance = edit_distance(unknown, name); distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  return best;
}

} // namespace baton
