#include "cluster/process/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace baton::cluster {
namespace {

constexpr std::size_t files_max = 4; // inherited by a child

int pidfd_open(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// Between fork and exec: async-signal-safe calls only. Never returns.
[[noreturn]] void become(const launch& what, char* const* argv, int log, pid_t parent) {
  setpgid(0, 0);
  die_with(parent);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  // Moves the files out of one another's way first; duplicates are not closed on exec.
  std::array<int, files_max> moved{};
  for (std::size_t i = 0; i < what.files.size(); ++i)
    moved[i] = fcntl(what.files[i], F_DUPFD, inherited_file + static_cast<int>(files_max));
  int next = inherited_file;
  for (std::size_t i = 0; i < what.files.size(); ++i)
    dup2(moved[i], next++);
  close_range(static_cast<unsigned>(next), ~0U, 0);
  execv(what.program.c_str(), argv);
  _exit(127);
}

} // namespace

void die_with(std::int32_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) // it ended before prctl
    _exit(127);
}

void outlive_parent(const run_dir& dir, std::string_view name, incarnation_id incarnation) {
  if (auto recorded = dir.record(name, incarnation); recorded)
    prctl(PR_SET_PDEATHSIG, 0);
  else
    spdlog::warn("{}: this process will end with its supervisor", recorded.error().message);
}

std::string child_end::text() const {
  if (how == way::unseen)
    return "ended with a status that only its parent has";
  if (how == way::signal)
    return fmt::format("killed by signal {} ({})", number, strsignal(number));
  return number == 127 ? "exit status 127 (could not be executed, or its parent was gone)"
                       : fmt::format("exit status {}", number);
}

child_watch::child_watch() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ENSURE(wake_fd_ >= 0, "eventfd: {}", std::strerror(errno));
  thread_ = std::thread([this] { wait_loop(); });
}

child_watch::~child_watch() {
  stopping_ = true;
  wake();
  thread_.join();
  for (auto& [pid, child] : children_)
    close(child.pidfd);
  close(wake_fd_);
}

result<std::int32_t> child_watch::start(const launch& what, ended on_end) {
  int log = open(what.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0)
    return fail(errc::io_failed, "{}: {}", what.log.string(), std::strerror(errno));
  ENSURE(what.files.size() <= files_max, "a child inherits {} files", what.files.size());
  std::vector<char*> argv;
  for (const auto& arg : what.argv)
    argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  auto parent = getpid();
  std::lock_guard lock(mutex_); // the end must not be reported before the pid is known
  pid_t pid = fork();
  if (pid == 0)
    become(what, argv.data(), log, parent);
  auto failure = errno;
  close(log);
  if (pid > 0)
    setpgid(pid, pid); // the child does this too: a parent must not depend on its timing
  if (pid < 0)
    return fail(errc::io_failed, "fork: {}", std::strerror(failure));
  const int pidfd = pidfd_open(pid);
  if (pidfd < 0) {
    failure = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return fail(errc::io_failed, "pidfd_open: {}", std::strerror(failure));
  }
  enter(pid, pidfd, std::move(on_end));
  return pid;
}

result<std::int32_t> child_watch::adopt(std::int32_t pid, ended on_end) {
  const int pidfd = pidfd_open(pid);
  if (pidfd < 0)
    return fail(errc::io_failed, "pidfd_open: {}", std::strerror(errno));
  adopt(pid, pidfd, std::move(on_end));
  return pid;
}

void child_watch::adopt(std::int32_t pid, int pidfd, ended on_end) {
  std::lock_guard lock(mutex_);
  enter(pid, pidfd, std::move(on_end));
}

void child_watch::enter(std::int32_t pid, int pidfd, ended on_end) {
  children_[pid] = {pidfd, std::move(on_end)};
  wake();
}

void child_watch::signal(std::int32_t pid, int number) {
  std::lock_guard lock(mutex_);
  if (auto child = children_.find(pid); child != children_.end())
    syscall(SYS_pidfd_send_signal, child->second.pidfd, number, nullptr, 0);
}

void child_watch::wake() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(wake_fd_, &one, sizeof one);
}

void child_watch::reap(std::int32_t pid) {
  entry gone;
  {
    std::lock_guard lock(mutex_);
    auto node = children_.extract(pid);
    gone = std::move(node.mapped());
  }
  siginfo_t info{};
  child_end end;
  if (waitid(P_PIDFD, static_cast<id_t>(gone.pidfd), &info, WEXITED) == 0)
    end = {info.si_code == CLD_EXITED ? child_end::way::exit : child_end::way::signal,
           info.si_status};
  close(gone.pidfd);
  gone.on_end(pid, end);
}

// Orphaned processes may be reparented to us (PR_SET_CHILD_SUBREAPER, or pid 1 of a container) and
// need to be reaped.
void child_watch::reap_orphans() {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      return;
    std::lock_guard lock(mutex_);
    if (children_.contains(info.si_pid))
      return;
    waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

void child_watch::wait_loop() {
  while (!stopping_) {
    std::vector<pollfd> fds{{wake_fd_, POLLIN, 0}};
    std::vector<std::int32_t> pids{0};
    {
      std::lock_guard lock(mutex_);
      for (const auto& [pid, child] : children_) {
        fds.push_back({child.pidfd, POLLIN, 0});
        pids.push_back(pid);
      }
    }
    if (poll(fds.data(), fds.size(), -1) < 0)
      continue;
    std::uint64_t count = 0;
    [[maybe_unused]] auto got = read(wake_fd_, &count, sizeof count);
    for (std::size_t i = 1; i < fds.size(); ++i)
      if (fds[i].revents & POLLIN)
        reap(pids[i]);
    reap_orphans();
  }
}

} // namespace baton::cluster
