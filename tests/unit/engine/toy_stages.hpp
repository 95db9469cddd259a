// All stages of the toy model in one process: runs a prompt's rows through them.
#pragma once

#include "runtime/engine/toy_engine.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace baton::engine {

class toy_stages {
public:
  explicit toy_stages(const toy_model& model) {
    for (stage_index s = 0; s < model.layers; ++s)
      all_.push_back(std::make_unique<toy_engine>(model, s, toy_memory{}));
  }

  // Rows [`at`, `end`) of a prompt, pooled by `how` (its slice is set here), beside a row of
  // another sequence that decodes.
  pooled run(const std::vector<token_id>& ids, std::size_t at, std::size_t end, pool how) {
    const auto first = static_cast<std::uint32_t>(at);
    micro_batch b;
    b.slices = {{{{9}, 0}, 0, 1, true, {7}},
                {{{1}, 0}, first, static_cast<std::uint32_t>(end) - first, false, {}}};
    for (block_index i = 0; i * 4 < end; ++i)
      b.slices[1].blocks.push_back(i);
    b.tokens = {8};
    b.tokens.insert(b.tokens.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
                    ids.begin() + static_cast<std::ptrdiff_t>(end));
    b.draws.resize(1);
    how.slice = 1;
    b.pools = {std::move(how)};
    std::vector<float> activations;
    std::vector<pooled> last;
    for (auto& stage : all_) {
      CHECK(last.empty()); // only the last stage pools
      auto out = stage->run(b, activations);
      REQUIRE_MESSAGE(out.has_value(), out.error().message);
      activations.assign(out->activations.begin(), out->activations.end());
      last = std::move(out->pooled);
    }
    REQUIRE(last.size() == 1);
    return std::move(last.front());
  }

private:
  std::vector<std::unique_ptr<toy_engine>> all_;
};

} // namespace baton::engine
