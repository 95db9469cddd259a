// The default model's greedy answers as transformers gives them in float32
// (tests/data/cpu/greedy_reference.json). An engine is teacher-forced along them; at each token the
// test checks its own choice.
#pragma once

#include "tests/unit/cpu/sequences.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace baton::testing {

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  REQUIRE(in.is_open());
  return nlohmann::json::parse(in);
}

// Below this margin between the reference's first and second choice, rounding decides. Every engine
// measured (llama.cpp in five formats) differs from float32 only below it.
inline constexpr double margin_bound = 0.3;

struct agreement {
  int steps = 0, same = 0, wrong = 0;
  double worst_loss = 0; // log-probability lost where it chose another token
};

template <class Engine>
agreement compare_greedy(Engine& engine, const nlohmann::json& cases) {
  agreement a;
  for (const auto& c : cases) {
    auto ids = c["prompt_ids"].get<std::vector<token_id>>();
    const auto outputs = c["output_ids"].get<std::vector<token_id>>();
    const auto margins = c["margins"].get<std::vector<double>>();
    std::uint32_t position = 0;
    std::vector<token_id> next = ids;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto out = engine.run(batch_of({{1, next, position}}), {});
      REQUIRE_MESSAGE(out, out.error().message);
      const token_id chosen = out->samples.at(0).token;
      const auto logits = engine.logits(0);
      const double loss = double{logits[static_cast<std::size_t>(chosen)]} -
                          double{logits[static_cast<std::size_t>(outputs[i])]};
      ++a.steps;
      a.same += chosen == outputs[i] ? 1 : 0;
      a.wrong += chosen != outputs[i] && margins[i] > margin_bound ? 1 : 0;
      a.worst_loss = std::max(a.worst_loss, loss);
      position += static_cast<std::uint32_t>(next.size());
      next = {outputs[i]};
    }
  }
  return a;
}

} // namespace baton::testing
