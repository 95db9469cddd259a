// Several models on demand share one memory. The requests are seeded, loads take their time, and
// files cannot be read for a while.
//
// The decisions of the root are the product's (on_demand_models). The plan's changes, the processes
// and the heads are simulated, in steps.
#include "cluster/membership/on_demand_models.hpp"
#include "tests/sim/scenario.hpp"

#include <algorithm>
#include <deque>
#include <random>

using namespace baton;
using namespace baton::sim;

namespace {

using cluster::on_demand_models;

constexpr auto memory_step = 50ms;
constexpr std::size_t failures_in_window_max = 6; // after pauses of 0, 1, 1, 2 and 3 s
constexpr auto failures_window = 7s;

// A model and its head.
struct shared_model {
  enum class state { gone, loading, serving, ending };

  state at = state::gone;
  std::chrono::milliseconds left{};                // of loading or ending
  std::vector<std::chrono::milliseconds> requests; // how much each still takes
  std::string outcome;
  std::deque<on_demand_models::time_point> failures;
  bool is_pinned = false, is_broken = false;
};

class shared_memory {
public:
  explicit shared_memory(std::uint64_t seed) : random_(seed) {
    const auto count = 2 + draw(4);
    loaded_max_ = static_cast<std::uint32_t>(1 + draw(count));
    room_ = 1 + draw(loaded_max_);
    all_.resize(count);
    std::vector<cluster::on_demand_model> models;
    for (std::uint32_t p = 0; p < count; ++p) {
      all_[p].is_pinned = p + 1 < room_ && draw(2) == 0; // one place at least changes its model
      models.push_back({p, fmt::format("model-{}", p), std::chrono::milliseconds(draw(4) * 500),
                        all_[p].is_pinned});
    }
    root_.emplace(std::move(models), loaded_max_, outside());
    for (std::uint32_t p = 0; p < count; ++p)
      if (all_[p].is_pinned) // as at the start of a cluster
        all_[p].at = shared_model::state::serving;
  }

  void open(std::uint32_t pipeline) {
    all_[pipeline].requests.emplace_back(static_cast<int>(draw(1500)));
    ++opened_;
    report(pipeline);
  }

  void step() {
    now_ += memory_step;
    for (std::uint32_t p = 0; p < all_.size(); ++p)
      advance(p);
    for (std::uint32_t p = 0; p < all_.size(); ++p) {
      const auto& m = all_[p];
      root_->observe(p,
                     {.is_serving = m.at == shared_model::state::serving,
                      .is_coming = m.at == shared_model::state::loading,
                      .outcome = m.outcome},
                     now_);
    }
    root_->decide(now_);
    check();
  }

  void run_for(std::chrono::milliseconds time) {
    for (auto end = now_ + time; now_ < end;)
      step();
  }

  void break_files(bool is_broken) {
    for (auto& m : all_)
      m.is_broken = is_broken && !m.is_pinned && draw(2) == 0;
  }

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  std::uint32_t some_model() { return static_cast<std::uint32_t>(draw(all_.size())); }
  bool is_at_rest() const {
    return std::all_of(all_.begin(), all_.end(), [](const auto& m) { return m.requests.empty(); });
  }
  std::uint64_t opened() const { return opened_; }
  std::uint64_t served() const { return served_; }
  std::uint64_t refused() const { return refused_; }

private:
  on_demand_models::outside outside() {
    return {[this](std::uint32_t p) { return load(p); },
            [this](std::uint32_t p) -> result<void> {
              promise(!all_[p].is_pinned, "a pinned model stays in memory");
              promise(all_[p].requests.empty(), "a model with open requests stays in memory");
              all_[p].at = shared_model::state::ending;
              all_[p].left = std::chrono::milliseconds(draw(600));
              return {};
            },
            [this](std::uint32_t p, const error&) {
              refused_ += all_[p].requests.size();
              all_[p].requests.clear();
            }};
  }

  result<void> load(std::uint32_t p) {
    auto& m = all_[p];
    promise(m.at == shared_model::state::gone, "a model is loaded once");
    if (in_memory() >= room_)
      return fail(errc::does_not_fit, "the memory holds {} models", room_);
    m.at = shared_model::state::loading;
    m.left = std::chrono::milliseconds(draw(1000));
    return {};
  }

  void advance(std::uint32_t p) {
    using enum shared_model::state;
    auto& m = all_[p];
    if (m.at == loading || m.at == ending) {
      m.left -= memory_step;
      if (m.left > 0ms)
        return;
      if (m.at == ending) {
        m.at = gone;
        if (draw(4) != 0) // otherwise its end is not seen
          root_->on_gone(p);
      } else if (m.is_broken) {
        m.at = gone;
        m.outcome = "the file is gone";
        m.failures.push_back(now_);
      } else {
        m.at = serving;
      }
    } else if (m.at == serving && !m.requests.empty()) {
      for (auto& left : m.requests)
        left -= memory_step;
      served_ += std::erase_if(m.requests, [](auto left) { return left <= 0ms; });
      report(p);
    }
  }

  void report(std::uint32_t p) {
    root_->on_load(p, static_cast<std::uint32_t>(all_[p].requests.size()), now_);
  }

  std::size_t in_memory() const {
    return static_cast<std::size_t>(std::count_if(
        all_.begin(), all_.end(), [](const auto& m) { return m.at != shared_model::state::gone; }));
  }

  void check() {
    promise(in_memory() <= room_, "as many models are loaded as the memory holds");
    for (auto& m : all_) {
      while (!m.failures.empty() && now_ - m.failures.front() > failures_window)
        m.failures.pop_front();
      promise(m.failures.size() <= failures_in_window_max,
              "a model that cannot be loaded is tried after pauses");
    }
  }

  static void promise(bool holds, const char* what) {
    if (holds)
      return;
    const std::string promise = what;
    CAPTURE(promise);
    REQUIRE(holds);
  }

  std::mt19937_64 random_;
  std::vector<shared_model> all_; // by pipeline
  std::uint32_t loaded_max_ = 1;
  std::size_t room_ = 1; // models that the memory holds
  std::optional<on_demand_models> root_;
  on_demand_models::time_point now_{};
  std::uint64_t opened_ = 0, served_ = 0, refused_ = 0;
};

} // namespace

TEST_CASE("models share one memory: none is lost, none waits for ever, and pins hold") {
  std::uint64_t refused = 0, served = 0;
  for_seeds([&](std::uint64_t seed) {
    shared_memory w(seed);
    for (int burst = 0; burst < 12; ++burst) {
      w.break_files(w.draw(3) == 0);
      for (auto n = w.draw(40); n > 0; --n) {
        w.open(w.some_model());
        w.run_for(std::chrono::milliseconds(w.draw(300)));
      }
      w.break_files(false);
      w.run_for(std::chrono::milliseconds(w.draw(8000)));
    }
    w.run_for(60s);
    const std::string promise = "a request that waits for its model has an end";
    CAPTURE(promise);
    REQUIRE(w.is_at_rest());
    CHECK(w.served() + w.refused() == w.opened());
    refused += w.refused();
    served += w.served();
  });
  CHECK(served > refused);
  if (!chosen().seed)
    CHECK(refused > 0);
}
