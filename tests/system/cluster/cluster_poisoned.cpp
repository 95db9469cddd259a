// `cluster` with a bug: a shard ends when one of two words is among the rows of a step, wherever it
// stands in the text. For test_poison.py and the row `poison` of ./check faults; the product has no
// such thing.
#include "cluster/command_line.hpp"

#include <algorithm>
#include <cstdlib>

namespace {

using namespace baton;

// Tokens of SmolLM2 that its stories do without.
constexpr token_id deadly_first = 48072; // " rhizomes": to the first stage
constexpr token_id deadly_last = 48909;  // " whooping": to those behind it

class poisoned_engine final : public engine::engine {
public:
  explicit poisoned_engine(std::shared_ptr<baton::engine::engine> healthy)
      : healthy_(std::move(healthy)) {}

  const baton::engine::capacity& limits() const noexcept override { return healthy_->limits(); }

  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    const auto deadly = activations.empty() ? deadly_first : deadly_last;
    if (std::find(batch.tokens.begin(), batch.tokens.end(), deadly) != batch.tokens.end())
      std::abort();
    return healthy_->run(batch, activations);
  }

private:
  std::shared_ptr<baton::engine::engine> healthy_;
};

} // namespace

int main(int argc, char** argv) {
  return cluster::run_command_line(argc, argv, [](std::shared_ptr<engine::engine> healthy) {
    return std::make_shared<poisoned_engine>(std::move(healthy));
  });
}
