// Goal: a kernel that traps on a GPU is distinguished from a step that fails. Method: a separate
// process, whose device is lost afterwards; skipped where there is no such device.
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace baton;
using namespace baton::testing;

extern "C" int launch_trap(); // trap.cu

TEST_CASE("a process whose kernel traps" * doctest::skip()) {
  const tiny_file tiny(tiny_llama{});
  std::vector<std::string> losses;
  auto settings = plugin_settings("cuda:0");
  settings.on_lost = [&](const error& why) { losses.push_back(why.message); };
  const auto engine = load_plugin(open_engine("torch"), tiny, settings);
  const auto batch = batch_of({{.sequence = 1, .tokens = {7, 8, 9}}});
  REQUIRE(engine->run(batch, {}));
  CHECK(losses.empty());
  REQUIRE(launch_trap() != 0);
  for (int i = 0; i < 2; ++i)
    CHECK(!engine->run(batch, {}));
  REQUIRE(losses.size() == 2);
  CHECK(losses[0].find("engine torch: the device is lost: ") == 0);
}

TEST_CASE("on cuda:0 a kernel that traps loses the device to its process, and to no other") {
  const auto found = plugin::examine(open_engine("torch").path(), "cuda:0");
  if (!found) {
    MESSAGE("skipped: ", found.error().message);
    return;
  }
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto child = "'" + self + "' --no-skip -tc='a process whose kernel traps'";
  CHECK(std::system(child.c_str()) == 0);
  CHECK(plugin::examine(open_engine("torch").path(), "cuda:0"));
}
