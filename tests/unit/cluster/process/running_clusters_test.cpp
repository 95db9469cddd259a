// Goal: a running cluster is found by its name wherever its run directory is. Method: run
// directories with records of this process, or of one that has ended.
#include "cluster/process/running_clusters.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

using namespace baton;
using namespace baton::cluster;
namespace fs = std::filesystem;

namespace {

// Separate for each case, short enough for sockets.
struct world {
  fs::path root = fs::temp_directory_path() / fmt::format("clusters-{}", getpid());
  fs::path parent = root / "xdg" / "baton";

  world() {
    fs::remove_all(root);
    fs::create_directories(root);
    setenv("XDG_RUNTIME_DIR", (root / "xdg").c_str(), 1);
  }
  ~world() {
    unsetenv("XDG_RUNTIME_DIR");
    fs::remove_all(root);
  }
  run_dir dir(const fs::path& below, bool is_alive = true) const {
    auto made = run_dir::open(root / below);
    REQUIRE(made);
    if (is_alive)
      REQUIRE(made->record("root", incarnation_id{1}));
    else
      std::ofstream(made->path() / "root.pid") << "999999999 1 1\n";
    return *made;
  }
  fs::path config(const std::string& file, const std::string& text) const {
    std::ofstream(root / file) << text << "\n[model]\nname = \"m\"\npath = \"m.gguf\"\n";
    return root / file;
  }
  std::size_t notes() const {
    std::error_code none;
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(parent / "+running", none), fs::directory_iterator()));
  }
};

errc code_of(const result<running_cluster>& r) {
  REQUIRE_FALSE(r);
  return r.error().code;
}

} // namespace

TEST_CASE("the places are those of the user, then the one of the unit, each once") {
  CHECK(runtime_dirs("/run/user/7", 7) ==
        std::vector<fs::path>{"/run/user/7/baton", "/tmp/baton-7", "/run/baton/baton"});
  CHECK(runtime_dirs(nullptr, 0) ==
        std::vector<fs::path>{"/run/user/0/baton", "/tmp/baton-0", "/run/baton/baton"});
  CHECK(runtime_dirs("/run/baton", 9).front() == "/run/baton/baton");
  CHECK(runtime_dirs("/run/baton", 9).size() == 3);
}

TEST_CASE("a cluster with a run directory of its own is found by its name") {
  const world w;
  const auto dir = w.dir("elsewhere/run");
  REQUIRE(record_running(dir, "own"));
  const auto found = find_cluster("own");
  REQUIRE_MESSAGE(found, found.error().message);
  CHECK(found->dir.path() == dir.path());
  CHECK(found->name == "own");
  CHECK(recorded_name(dir) == "own");
  const auto by_directory = find_cluster(dir.path().string() + "/");
  REQUIRE(by_directory);
  CHECK(by_directory->name == "own");
  const auto none = find_cluster("other");
  CHECK(code_of(none) == errc::not_found);
  CHECK(none.error().message.find("looked in " + w.parent.string()) != std::string::npos);
  CHECK(none.error().message.find("/run/baton/baton") != std::string::npos);
}

TEST_CASE("a cluster in a directory of the place is found without a note, an ended one is not") {
  const world w;
  w.dir("xdg/baton/plain");
  REQUIRE(record_running(w.dir("gone", /*lives=*/false), "gone"));
  CHECK(find_cluster("plain"));
  CHECK(code_of(find_cluster("gone")) == errc::not_found);
  CHECK(running_clusters({w.parent}).size() == 1);
}

TEST_CASE("a note is removed with its cluster, or when another finds that it has ended") {
  const world w;
  const auto dir = w.dir("own");
  REQUIRE(record_running(dir, "own"));
  REQUIRE(record_running(dir, "own"));
  CHECK(w.notes() == 1);
  forget_running(dir); // whose last process is this one
  CHECK(w.notes() == 0);
  REQUIRE(record_running(w.dir("ended", /*lives=*/false), "ended"));
  REQUIRE(record_running(dir, "own"));
  CHECK(w.notes() == 1);
}

TEST_CASE("several with one name are distinguished by their directories") {
  const world w;
  const auto first = w.dir("a"), second = w.dir("b");
  REQUIRE(record_running(first, "same"));
  REQUIRE(record_running(second, "same"));
  const auto both = find_cluster("same");
  CHECK(code_of(both) == errc::conflict);
  for (const auto& dir : {first, second})
    CHECK(both.error().message.find(dir.path().string() + "/") != std::string::npos);
}

TEST_CASE("a configuration finds its own cluster, not another in the same directory") {
  const world w;
  const auto run = w.root / "run";
  const auto config = w.config("one.toml", "[cluster]\nrun_dir = \"" + run.string() + "\"");
  const auto other = w.config("two.toml", "[cluster]\nrun_dir = \"" + run.string() + "\"");
  const auto missing = find_cluster(config.string());
  CHECK(code_of(missing) == errc::not_found);
  CHECK(missing.error().message == "one is not running: looked in " + run.string());
  CHECK_FALSE(fs::exists(run)); // a query creates nothing
  REQUIRE(record_running(w.dir("run"), "one"));
  CHECK(find_cluster(config.string()));
  const auto refused = find_cluster(other.string());
  CHECK(code_of(refused) == errc::not_found);
  CHECK(refused.error().message.find("another cluster runs, one") != std::string::npos);
}

TEST_CASE("a configuration without a run directory looks in all places") {
  const world w;
  const auto config = w.config("svc.toml", "");
  const auto none = find_cluster(config.string());
  CHECK(code_of(none) == errc::not_found);
  CHECK(none.error().message.find((w.parent / "svc").string() + ", /run/user/") !=
        std::string::npos);
  CHECK(none.error().message.ends_with("/run/baton/baton/svc"));
  const auto bad = w.config("bad.toml", "[cluster]\nrun_dirr = \"x\"");
  CHECK(exit_status_of_search(find_cluster(bad.string()).error().code) == 78);
}

TEST_CASE("a note that leads nowhere or is empty is no cluster") {
  const world w;
  fs::create_directories(w.parent / "+running");
  std::ofstream(w.parent / "+running" / "1") << "name\n/nowhere\n";
  std::ofstream(w.parent / "+running" / "2") << "\n";
  std::ofstream(w.parent / "+running" / "3") << "bad name\n/tmp\n";
  CHECK(running_clusters({w.parent}).empty());
}
