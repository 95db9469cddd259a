// Selects the experts of a row and the rows of an expert. Pure: every member of a team computes the
// same result independently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton::cpu {

struct expert_choice {
  std::uint32_t expert = 0;
  float weight = 0; // factor of the expert's output in the row's sum
};

// The experts with the highest scores, best first, lower index first among equals. The caller
// computes the weights. Requires: scores.size() >= chosen.size() >= 1.
void choose_experts(std::span<const float> scores, std::span<expert_choice> chosen);

// Sets the scores outside the best `used` of `groups` groups of consecutive experts to -infinity.
// A group's score is its best one, or the sum of its best two. Among equals the first group wins.
// Requires: groups <= expert_groups_max, used <= groups, scores.size() divides into groups.
struct group_choice {
  std::uint32_t groups = 1, used = 1;
  bool sums_two = false;
};
inline constexpr std::size_t expert_groups_max = 64;
void keep_best_groups(std::span<float> scores, const group_choice& choice);

// One row of an expert.
struct expert_slot {
  std::uint32_t row = 0;
  float weight = 0;
};

// Assigns slots [first[e], first[e + 1]) to the rows of expert e, in ascending order. `choices` has
// `used` entries per row.
// Requires: first.size() == experts + 2, slots.size() == choices.size(), a multiple of `used`.
void group_by_expert(std::span<const expert_choice> choices, std::size_t used,
                     std::span<std::uint32_t> first, std::span<expert_slot> slots);

} // namespace baton::cpu
