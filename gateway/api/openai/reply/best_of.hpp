// Selects the answers to return when more are drawn than requested (OpenAI's and TGI's best_of):
// those with the highest mean log-probability. Pure.
#pragma once

#include "schema/messages.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace baton::gateway {

// Mean log-probability of an answer's tokens; -infinity if it has none.
double mean_logprob(std::span<const token_detail> tokens) noexcept;

// Indexes of the `count` highest means, best first; of equal ones the earlier. Requires: count <=
// means.size().
std::vector<std::uint32_t> likeliest(std::span<const double> means, std::uint32_t count);

} // namespace baton::gateway
