// `cluster` with bugs. A shard aborts when one of two words is among the rows of a step; a step
// hangs or runs out of memory when a file requests it. For test_poison.py and the row `poison` of
// ./check faults; the product contains none of this.
#include "cluster/commands/command_line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

using namespace baton;

// Tokens of SmolLM2 that do not occur in its stories.
constexpr token_id deadly_first = 48072; // " rhizomes": for the first stage
constexpr token_id deadly_last = 48909;  // " whooping": for later stages

// The variable holds the name of a file. The process that acts on it removes the file: once.
constexpr auto hang_file = "BATON_TEST_HANG";     // a step that never returns
constexpr auto no_memory_file = "BATON_TEST_OOM"; // a step that throws std::bad_alloc

bool is_asked_for(const char* variable) {
  const char* file = std::getenv(variable);
  return file != nullptr && unlink(file) == 0;
}

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
    for (const bool hangs = is_asked_for(hang_file); hangs;)
      pause();
    if (is_asked_for(no_memory_file))
      throw std::bad_alloc();
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
