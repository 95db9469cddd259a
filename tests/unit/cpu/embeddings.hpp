// Runs an engine to embed a prompt, as a scheduler would: in chunks, each continuing the pooled
// state of the last one. Shared by the tests of the CPU engine and of plugin engines.
#pragma once

#include "tests/unit/cpu/sequences.hpp"

namespace baton::testing {

inline constexpr auto all_poolings = {pooling::mean, pooling::last, pooling::cls};

inline std::vector<token_id> part_of(const std::vector<token_id>& all, std::size_t from,
                                     std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// In steps of the given sizes (the last one repeats), each beside `company`.
template <class Engine>
std::vector<float> embedding_of(Engine& engine, const std::vector<token_id>& tokens, pooling how,
                                const std::vector<std::size_t>& sizes,
                                const std::vector<part>& company = {}) {
  pooled came_to;
  for (std::size_t at = 0, i = 0; at < tokens.size(); ++i) {
    const std::size_t count = std::min(sizes[std::min(i, sizes.size() - 1)], tokens.size() - at);
    auto parts = company;
    parts.push_back({.sequence = 99,
                     .tokens = part_of(tokens, at, count),
                     .position = static_cast<std::uint32_t>(at),
                     .samples = false});
    at += count;
    auto batch = batch_of(parts);
    batch.pools = {{static_cast<std::uint32_t>(parts.size() - 1), how, at == tokens.size(),
                    std::move(came_to.values)}};
    auto step = engine.run(batch, {});
    REQUIRE_MESSAGE(step, step.error().message);
    REQUIRE(step->pooled.size() == 1);
    REQUIRE(step->samples.size() == company.size());
    came_to = std::move(step->pooled[0]);
  }
  return came_to.values;
}

} // namespace baton::testing
