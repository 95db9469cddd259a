// Inputs that once crashed a reader stay harmless: every file in tests/fuzz/corpus/NAME and
// tests/fuzz/seeds/NAME runs once through the fuzz target NAME, in every build.
#include "schema/ensure.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

// targets.inc names all targets of CMakeLists.txt.
#define TARGET(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "tests/fuzz/targets.inc"
#undef TARGET

namespace {

namespace fs = std::filesystem;

struct fuzz_target {
  std::string name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

const std::vector<fuzz_target>& targets() {
#define TARGET(name) {#name, fuzz_##name},
  static const std::vector<fuzz_target> all{
#include "tests/fuzz/targets.inc"
  };
#undef TARGET
  return all;
}

const fs::path& directory() {
  static const fs::path path = fs::path(BATON_SOURCE_DIR) / "tests/fuzz";
  return path;
}

void replay(const fuzz_target& target, const fs::path& file) {
  CAPTURE(file.string());
  std::ifstream in(file, std::ios::binary);
  REQUIRE(in);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  // Memory of exactly this size: the sanitizer builds detect a read past the end.
  const auto exact = std::make_unique<std::uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  CHECK(target.run(exact.get(), bytes.size()) == 0);
}

} // namespace

TEST_CASE("inputs that fuzzing found, and those it begins with, are read or refused") {
  for (const auto& target : targets())
    for (const auto* kept : {"corpus", "seeds"}) {
      std::set<fs::path> files; // in the same order everywhere
      if (fs::exists(directory() / kept / target.name))
        for (const auto& file : fs::directory_iterator(directory() / kept / target.name))
          files.insert(file.path());
      for (const auto& file : files)
        replay(target, file);
    }
}

TEST_CASE("no input and a single byte of each value are read or refused by every target") {
  for (const auto& target : targets()) {
    CAPTURE(target.name);
    CHECK(target.run(nullptr, 0) == 0);
    for (unsigned value = 0; value < 256; ++value) {
      const auto byte = static_cast<std::uint8_t>(value);
      CHECK(target.run(&byte, 1) == 0);
    }
  }
}

TEST_CASE("every directory of kept inputs is that of a target") {
  std::set<std::string> names;
  for (const auto& target : targets())
    names.insert(target.name);
  for (const auto* kept : {"corpus", "seeds"})
    for (const auto& each : fs::directory_iterator(directory() / kept))
      CHECK_MESSAGE(names.contains(each.path().filename().string()), each.path().string());
}
