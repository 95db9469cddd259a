// Insertion sort for the best experts of a row, counting sort for the rows of an expert.
#include "runtime/cpu/kernels/expert_choice.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace baton::cpu {

// `weight` holds the score until the end. No score, not even NaN, selects an invalid expert.
void choose_experts(std::span<const float> scores, std::span<expert_choice> chosen) {
  std::size_t count = 0;
  for (std::uint32_t expert = 0; expert < scores.size(); ++expert) {
    const float score = scores[expert];
    if (count == chosen.size() && !(score > chosen[count - 1].weight))
      continue;
    count = std::min(count + 1, chosen.size());
    std::size_t at = count - 1;
    for (; at > 0 && score > chosen[at - 1].weight; --at)
      chosen[at] = chosen[at - 1];
    chosen[at] = {expert, score};
  }
}

static float score_of_group(std::span<const float> scores, bool sums_two) {
  float best = -std::numeric_limits<float>::infinity(), second = best;
  for (const float score : scores) {
    if (score > best)
      second = std::exchange(best, score);
    else if (score > second)
      second = score;
  }
  return sums_two ? best + second : best;
}

void keep_best_groups(std::span<float> scores, const group_choice& choice) {
  const std::size_t size = scores.size() / choice.groups;
  std::array<float, expert_groups_max> of_group{};
  const std::span found(of_group.data(), choice.groups);
  for (std::size_t group = 0; group < found.size(); ++group)
    found[group] = score_of_group(scores.subspan(group * size, size), choice.sums_two);
  for (std::size_t group = 0; group < found.size(); ++group) {
    std::size_t better = 0;
    for (std::size_t other = 0; other < found.size(); ++other)
      better += found[other] > found[group] || (found[other] == found[group] && other < group);
    if (better >= choice.used)
      std::ranges::fill(scores.subspan(group * size, size),
                        -std::numeric_limits<float>::infinity());
  }
}

// `first` has one extra entry: first[e + 1] is the next free slot of e and ends as its end.
void group_by_expert(std::span<const expert_choice> choices, std::size_t used,
                     std::span<std::uint32_t> first, std::span<expert_slot> slots) {
  std::ranges::fill(first, 0U);
  for (const auto& choice : choices)
    ++first[choice.expert + 2];
  for (std::size_t e = 2; e < first.size(); ++e)
    first[e] += first[e - 1];
  for (std::size_t i = 0; i < choices.size(); ++i)
    slots[first[choices[i].expert + 1]++] = {static_cast<std::uint32_t>(i / used),
                                             choices[i].weight};
}

} // namespace baton::cpu
