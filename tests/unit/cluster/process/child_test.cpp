// Children by pidfd: their end is reported once, with its cause; they have a group of their own; a
// start that fails gives its reason.
#include "cluster/files/memory_file.hpp"
#include "cluster/process/child.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <fstream>

using namespace baton;
using namespace baton::cluster;

namespace {

struct ends {
  std::mutex mutex;
  std::condition_variable came;
  std::vector<std::string> how;

  child_watch::ended recorder() {
    return [this](std::int32_t, const child_end& end) {
      std::lock_guard lock(mutex);
      how.push_back(end.text());
      came.notify_all();
    };
  }
  std::string wait(std::size_t count) {
    std::unique_lock lock(mutex);
    REQUIRE(came.wait_for(lock, std::chrono::seconds(20), [&] { return how.size() >= count; }));
    return how[count - 1];
  }
};

const std::filesystem::path log_file =
    std::filesystem::temp_directory_path() / fmt::format("child-test-{}.log", getpid());

launch shell(const std::string& script) {
  return {"/bin/sh", {"sh", "-c", script}, log_file};
}

} // namespace

TEST_CASE("the end of a child is reported with its cause and its output is in the log") {
  ends e;
  child_watch watch;
  REQUIRE(watch.start(shell("echo hello; echo oops >&2; exit 3"), e.recorder()));
  CHECK(e.wait(1) == "exit status 3");
  auto pid = watch.start(shell("exec tail -f /dev/null"), e.recorder());
  REQUIRE(pid);
  CHECK(getpgid(*pid) != getpgrp());
  watch.signal(*pid, SIGKILL);
  CHECK(e.wait(2) == "killed by signal 9 (Killed)");
  watch.signal(*pid, SIGKILL); // it has ended: no effect
  std::ifstream in(log_file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  CHECK(text == "hello\noops\n");
  std::filesystem::remove(log_file);
}

TEST_CASE("a child inherits the given file and no other, and the memory outlives it") {
  ends e;
  child_watch watch;
  auto memory = memory_file::create("test");
  auto other = memory_file::create("other");
  REQUIRE(memory);
  REQUIRE(other);
  auto what = shell("printf kept >&3; ls /proc/self/fd | wc -l");
  what.files = {memory->fd()};
  REQUIRE(watch.start(what, e.recorder()));
  CHECK(e.wait(1) == "exit status 0");
  char text[8] = {};
  CHECK(pread(memory->fd(), text, sizeof text, 0) == 4);
  CHECK(std::string(text) == "kept");
  std::ifstream in(log_file);
  int files = 0;
  in >> files;
  CHECK(files == 5); // 0 to 3, and the one that ls reads
  std::filesystem::remove(log_file);
}

TEST_CASE("several files keep their order") {
  ends e;
  child_watch watch;
  auto first = memory_file::create("first");
  auto second = memory_file::create("second");
  REQUIRE(first);
  REQUIRE(second);
  auto what = shell("printf one >&3; printf two >&4");
  what.files = {second->fd(), first->fd()};
  REQUIRE(watch.start(what, e.recorder()));
  CHECK(e.wait(1) == "exit status 0");
  char text[8] = {};
  CHECK(pread(second->fd(), text, sizeof text, 0) == 3);
  CHECK(std::string(text) == "one");
  CHECK(pread(first->fd(), text, sizeof text, 0) == 3);
  CHECK(std::string(text) == "two");
  std::filesystem::remove(log_file);
}

TEST_CASE("a missing program ends with status 127 and an unwritable log is an error") {
  ends e;
  child_watch watch;
  REQUIRE(watch.start({"/nowhere/program", {"p"}, log_file}, e.recorder()));
  CHECK(e.wait(1).find("127") != std::string::npos);
  auto r = watch.start({"/bin/true", {"true"}, "/nowhere/log"}, e.recorder());
  REQUIRE_FALSE(r);
  CHECK(r.error().code == errc::io_failed);
  std::filesystem::remove(log_file);
}

TEST_CASE("the end of a process that is not ours is reported, but not its cause") {
  ends e;
  child_watch watch;
  // A grandchild, adopted by init once the shell between has ended.
  auto what = shell("sleep 60 & echo $!");
  REQUIRE(watch.start(what, e.recorder()));
  CHECK(e.wait(1) == "exit status 0");
  std::ifstream in(log_file);
  std::int32_t pid = 0;
  in >> pid;
  REQUIRE(pid > 0);
  REQUIRE(watch.adopt(pid, e.recorder()));
  watch.signal(pid, SIGKILL);
  CHECK(e.wait(2) == "ended with a status that only its parent has");
  std::filesystem::remove(log_file);
}
