// Which of several answers to one request are given, where more are drawn than were asked for
// (OpenAI's and TGI's best_of): those whose tokens were likeliest on average. Pure.
#pragma once

#include "schema/messages.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace baton::gateway {

// Mean of the log-probabilities of an answer's tokens; of one without tokens the least there is.
double mean_logprob(std::span<const token_detail> tokens) noexcept;

// The places of the `count` highest, the best one first; of equal ones the earlier. Requires: count
// <= means.size().
std::vector<std::uint32_t> likeliest(std::span<const double> means, std::uint32_t count);

} // namespace baton::gateway
