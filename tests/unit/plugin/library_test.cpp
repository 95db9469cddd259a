// Goal: an incompatible library is rejected by name before any of its code runs, and an engine's
// results pass through. Method: libraries built to be invalid (bad_engine.cpp); requests that the
// plain engine does not support.
#include "runtime/plugin/folders.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

using namespace baton;
using namespace baton::testing;

namespace {

const std::filesystem::path engines = BATON_ENGINES_DIR;

error refusal(const std::filesystem::path& file) {
  const auto opened = plugin::library::open(file);
  REQUIRE(!opened);
  CHECK(opened.error().message.find(file.filename().string()) != std::string::npos);
  return opened.error();
}

} // namespace

TEST_CASE("a library of another interface version is rejected with both numbers") {
  const auto e = refusal(engines / "engine_bad_old.so");
  CHECK(e.code == errc::version_mismatch);
  CHECK(e.message.find(fmt::format("version {} ", plugin::abi_version + 1)) != std::string::npos);
  CHECK(e.message.find(fmt::format("has {}", plugin::abi_version)) != std::string::npos);
}

TEST_CASE("a library without an engine, or with an incomplete one, is rejected") {
  CHECK(refusal(engines / "engine_bad_none.so").message.find("no symbol baton_engine") !=
        std::string::npos);
  CHECK(refusal(engines / "engine_bad_gap.so").message.find("lacks a function") !=
        std::string::npos);
  const scratch_directory scratch;
  std::ofstream(scratch / "engine_text.so") << "no library\n";
  CHECK(refusal(scratch / "engine_text.so").code == errc::start_failed);
  CHECK(refusal(scratch / "engine_missing.so").code == errc::start_failed);
}

TEST_CASE("libraries are searched in BATON_ENGINES") {
  ::setenv("BATON_ENGINES", engines.c_str(), 1);
  const auto found = plugin::find_library("plain");
  REQUIRE(found);
  CHECK(*found == engines / "engine_plain.so");
  const auto none = plugin::find_library("gone");
  ::unsetenv("BATON_ENGINES");
  REQUIRE(!none);
  CHECK(none.error().code == errc::not_found);
  CHECK(none.error().message.find(engines.string()) != std::string::npos);
}

TEST_CASE("a library is searched beside the program, and where an installation has it") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::vector<std::filesystem::path> expected{program, program / "doors",
                                                    program.parent_path() / "lib/baton/doors"};
  CHECK(plugin::library_folders("BATON_NO_SUCH_VARIABLE", "doors") == expected);
  ::setenv("BATON_NO_SUCH_VARIABLE", "", 1); // empty is unset
  CHECK(plugin::library_folders("BATON_NO_SUCH_VARIABLE", "doors") == expected);
  ::unsetenv("BATON_NO_SUCH_VARIABLE");
}

TEST_CASE("an engine names its device, and rejects others") {
  const auto file = engines / "engine_plain.so";
  const auto good = plugin::examine(file, "plain");
  REQUIRE_MESSAGE(good, good.error().message);
  CHECK(*good == "plain, float32, float16 KV");
  const auto bad = plugin::examine(file, "cuda:0");
  REQUIRE(!bad);
  CHECK(bad.error().code == errc::start_failed);
  CHECK(bad.error().message == "engine plain: there is no device cuda:0, only plain");
}

TEST_CASE("the needs of ranks are checked only where there are ranks") {
  const auto file = engines / "engine_plain.so";
  CHECK(plugin::examine(file, "plain-alone"));
  CHECK(plugin::examine(file, "plain", 2));
  const auto bad = plugin::examine(file, "plain-alone", 2);
  REQUIRE(!bad);
  CHECK(bad.error().message == "engine plain: several ranks need what this machine has not");
  const auto apart = plugin::examine(file, "plain-apart", 2, 1);
  REQUIRE(apart);
  CHECK(apart->ends_with("; ranks connected by plain loops"));
  const auto crowded = plugin::examine(file, "plain-apart", 2, 2);
  REQUIRE(!crowded);
  CHECK(crowded.error().message == "engine plain: 2 ranks of a stage are on one device");
}

TEST_CASE("impossible settings are rejected before weights are read") {
  const auto plain = open_engine("plain");
  const tiny_file tiny(tiny_llama{});
  const auto refused = [&](const std::function<void(plugin::config&)>& change) {
    auto settings = plugin_settings("plain");
    change(settings);
    const auto engine = plugin::plugin_engine::load(plain, *tiny.file, tiny.description,
                                                    model::whole(tiny.description), settings);
    REQUIRE(!engine);
    return engine.error();
  };
  CHECK(refused([](auto& c) { c.rows_max = 0; }).param == "rows_max");
  CHECK(refused([](auto& c) { c.blocks = 0; }).code == errc::does_not_fit);
  CHECK(refused([](auto& c) { c.block_positions = 0; }).param == "block_positions");
  CHECK(refused([](auto& c) { c.threads = 0; }).param == "threads");
  CHECK(refused([](auto& c) { c.rank = 1; }).param == "slices");
  CHECK(refused([](auto& c) { c.device = "cuda:0"; }).code == errc::start_failed);
  CHECK(refused([](auto& c) { c.blocks = UINT32_MAX; }).code == errc::invalid_value);
}

TEST_CASE("a model that an engine cannot compute is rejected by name") {
  const auto plain = open_engine("plain");
  const tiny_file tiny(tiny_llama{});
  auto wide = tiny.description;
  wide.head_size = 512;
  wide.head_count = wide.kv_head_count = 1;
  const auto engine = plugin::plugin_engine::load(plain, *tiny.file, wide, model::whole(wide),
                                                  plugin_settings("plain"));
  REQUIRE(!engine);
  CHECK(engine.error().code == errc::unsupported_model);
  CHECK(engine.error().message.find("heads of 512") != std::string::npos);
}
