// Small text files, and the files of a tree.
#include "cluster/files/files_below.hpp"
#include "cluster/files/text_file.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

using namespace baton;
using namespace baton::cluster;
namespace fs = std::filesystem;

TEST_CASE("a file is replaced whole, and nothing is left beside it") {
  const baton::testing::scratch_directory dir;
  const auto file = dir.path() / "a";
  REQUIRE(replace_file(file, "one\ntwo\n"));
  CHECK(first_line(file) == "one");
  REQUIRE(replace_file(file, "three"));
  CHECK(first_line(file) == "three");
  CHECK(first_line(dir.path() / "none").empty());
  fs::create_directory(dir.path() / "folder");
  const auto refused = replace_file(dir.path() / "folder", "x");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.ends_with("folder: cannot be written"));
  CHECK_FALSE(replace_file(dir.path() / "none/b", "x"));
  CHECK(files_below(dir.path()) == std::vector<fs::path>{file});
}

TEST_CASE("files of a tree are found through links to them, and directories are not") {
  const baton::testing::scratch_directory dir, other;
  fs::create_directories(dir.path() / "b/c/d");
  for (const auto* name : {"z", "b/y", "b/c/x", "b/c/d/w"})
    std::ofstream(dir.path() / name) << "1";
  std::ofstream(other.path() / "far") << "1";
  fs::create_symlink(other.path() / "far", dir.path() / "link");
  fs::create_symlink(other.path(), dir.path() / "b/elsewhere");
  fs::create_symlink(dir.path() / "missing", dir.path() / "dangling");
  const auto below = [&](int depth) {
    std::vector<std::string> names;
    for (const auto& path : files_below(dir.path(), depth))
      names.push_back(path.lexically_relative(dir.path()).string());
    return names;
  };
  CHECK(below(any_depth) == std::vector<std::string>{"b/c/d/w", "b/c/x", "b/y", "link", "z"});
  CHECK(below(1) == std::vector<std::string>{"b/y", "link", "z"});
  CHECK(below(0) == std::vector<std::string>{"link", "z"});
  CHECK(files_below(dir.path() / "none").empty());
}

TEST_CASE("the beginning of a file has at most the bytes that were asked for") {
  const baton::testing::scratch_directory dir;
  const auto file = dir.path() / "text";
  std::ofstream(file) << "one\ntwo";
  CHECK(beginning_of(file, 5) == "one\nt");
  CHECK(beginning_of(file, 100) == "one\ntwo");
  CHECK(beginning_of(file, 0).empty());
  CHECK(beginning_of(dir.path() / "none", 100).empty());
  CHECK(beginning_of(dir.path(), 100).empty());
}
