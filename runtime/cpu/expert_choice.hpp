// Which experts a row passes through, and which rows an expert has. Pure; every member of a team
// comes to the same answer by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton::cpu {

struct expert_choice {
  std::uint32_t expert = 0;
  float weight = 0; // of what the expert gives, in the row's sum
};

// The experts with the highest scores, best first; of equal ones the lower. The weights are left to
// the caller. Requires: scores.size() >= chosen.size() >= 1.
void choose_experts(std::span<const float> scores, std::span<expert_choice> chosen);

// A row's place among those of one expert.
struct expert_slot {
  std::uint32_t row = 0;
  float weight = 0;
};

// The rows of expert e become slots [first[e], first[e + 1]), in ascending order. choices: those of
// row 0, of row 1, .., `used` each.
// Requires: first.size() == experts + 2, slots.size() == choices.size(), a multiple of `used`.
void group_by_expert(std::span<const expert_choice> choices, std::size_t used,
                     std::span<std::uint32_t> first, std::span<expert_slot> slots);

} // namespace baton::cpu
