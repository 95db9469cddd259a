// Goal: a lost device fails the current step and every later one by that name, wherever the loss is
// noticed. Method: the plain device, whose kernel traps when a file requests it.
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

using namespace baton;
using namespace baton::testing;

namespace {

struct trap {
  scratch_directory scratch;
  std::filesystem::path file = scratch / "trap";

  trap() { ::setenv("BATON_PLAIN_TRAP", file.c_str(), 1); }
  trap(const trap&) = delete;
  trap& operator=(const trap&) = delete;
  ~trap() { ::unsetenv("BATON_PLAIN_TRAP"); }
  void set() const { std::ofstream(file) << "now\n"; }
};

const part asked{.sequence = 1, .tokens = {7, 8, 9}, .blocks_from = 2};

// An engine whose shard records the device losses that it is notified of.
struct shard {
  std::vector<std::string> losses;
  tiny_file tiny{tiny_llama{}};

  plugin::config settings() {
    auto c = plugin_settings("plain-trapping");
    c.on_lost = [this](const error& why) { losses.push_back(why.message); };
    return c;
  }
  std::unique_ptr<plugin::plugin_engine> load() {
    return load_plugin(open_engine("plain"), tiny, settings());
  }
};

void check_lost(const result<engine::step_output>& out, const std::vector<std::string>& losses) {
  REQUIRE(!out);
  REQUIRE(!losses.empty());
  CHECK(losses.back() == out.error().message);
  CHECK(out.error().message.find("engine plain: the device is lost: an illegal memory access") !=
        std::string::npos);
}

} // namespace

TEST_CASE("a kernel that traps loses the device, for this step and all that follow") {
  const trap traps;
  shard first, second;
  const auto engine = first.load();
  REQUIRE(engine->run(batch_of({asked}), {}));
  CHECK(first.losses.empty());
  traps.set();
  check_lost(engine->run(batch_of({asked}), {}), first.losses);
  CHECK_FALSE(std::filesystem::exists(traps.file));
  check_lost(engine->run(batch_of({asked}), {}), first.losses);
  CHECK(first.losses.size() == 2);
  // Another process can use the device: here, another engine.
  const auto next = second.load();
  CHECK(next->run(batch_of({asked}), {}));
  CHECK(second.losses.empty());
}

TEST_CASE("a step without output copies still reports a kernel that trapped") {
  const trap traps;
  shard s;
  const auto engine = s.load();
  auto silent = asked;
  silent.samples = false;
  REQUIRE(engine->run(batch_of({silent}), {}));
  traps.set();
  check_lost(engine->run(batch_of({silent}), {}), s.losses);
}

TEST_CASE("a device lost while the model loads is reported") {
  const trap traps;
  shard s;
  traps.set();
  const auto engine =
      plugin::plugin_engine::load(open_engine("plain"), *s.tiny.file, s.tiny.description,
                                  model::whole(s.tiny.description), s.settings());
  REQUIRE(!engine);
  CHECK(s.losses == std::vector{engine.error().message});
}

// Only lost devices are reported: a request's faulty step fails by itself.
TEST_CASE("a step that fails on a working device is not reported as a loss") {
  shard s;
  const auto last = load_plugin(open_engine("plain"), s.tiny, s.settings(),
                                model::layer_range{1, 1, false, true});
  std::vector<float> rows(s.tiny.description.hidden_size, NAN);
  const auto batch = batch_of({{.sequence = 1, .tokens = {7}}});
  REQUIRE(!last->run(batch, rows));
  CHECK(s.losses.empty());
  std::fill(rows.begin(), rows.end(), 0.5F);
  CHECK(last->run(batch, rows));
}
