#include "cluster/plan/worker_group.hpp"

#include "cluster/files/exit_status.hpp"
#include "cluster/process/child.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>

namespace baton::cluster {
namespace {

using rank_clock = std::chrono::steady_clock;

constexpr const char* master_addr = "127.0.0.1"; // ranks are on one machine
// Limits how long ranks may run after rank 0 has ended, for instance in `finalize`.
constexpr std::chrono::seconds farewell_max{5};
constexpr std::chrono::milliseconds signal_poll{200}; // while ranks are ending

// A free port for the ranks; 0 with errno if there is none. If another process takes it first, rank
// 0 fails, and the next start of the group chooses another port.
std::uint16_t free_port() {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0)
    return 0;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  inet_pton(AF_INET, master_addr, &at.sin_addr);
  socklen_t size = sizeof(at);
  const bool is_bound = bind(s, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                        getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  const int why = errno;
  close(s);
  errno = why;
  return is_bound ? ntohs(at.sin_port) : 0;
}

// The socket pairs between rank 0 and the other ranks.
struct rank_sockets {
  std::vector<int> of_rank_0, of_others; // by rank - 1
  ~rank_sockets() { close_all(); }
  rank_sockets() = default;
  rank_sockets(const rank_sockets&) = delete;
  rank_sockets& operator=(const rank_sockets&) = delete;

  bool open(std::uint32_t ranks) {
    for (std::uint32_t i = 1; i < ranks; ++i) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
      of_rank_0.push_back(ends[0]);
      of_others.push_back(ends[1]);
    }
    return true;
  }
  void close_all() {
    for (auto* all : {&of_rank_0, &of_others}) {
      for (const int fd : *all)
        close(fd);
      all->clear();
    }
  }
};

void set_variable(const char* name, const std::string& value) {
  setenv(name, value.c_str(), /*replace=*/1);
}

// The variables of torchrun's agent for a job on one machine without restarts.
void set_rank_environment(const worker_group& g, std::uint32_t rank, std::uint16_t port) {
  const auto own = std::to_string(rank), all = std::to_string(g.ranks);
  for (const auto* name : {"RANK", "LOCAL_RANK", "ROLE_RANK"})
    set_variable(name, own);
  for (const auto* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"})
    set_variable(name, all);
  set_variable("GROUP_RANK", "0");
  set_variable("GROUP_WORLD_SIZE", "1");
  set_variable("ROLE_NAME", "default");
  set_variable("MASTER_ADDR", master_addr);
  set_variable("MASTER_PORT", std::to_string(port));
  set_variable("TORCHELASTIC_RUN_ID", g.run_id);
  set_variable("TORCHELASTIC_RESTART_COUNT", "0");
  set_variable("TORCHELASTIC_MAX_RESTARTS", "0");
  set_variable("TORCHELASTIC_USE_AGENT_STORE", "False"); // rank 0 hosts the store at MASTER_PORT
  set_variable("OMP_NUM_THREADS", std::to_string(g.omp_num_threads));
  set_variable("BATON_GROUP_PARALLEL", g.parallel);
  if (std::getenv("BATON_WORKER_GPU_ID")) // an index into CUDA_VISIBLE_DEVICES, one per rank
    set_variable("BATON_WORKER_GPU_ID", own);
}

std::string inherited(const std::vector<int>& sockets) {
  std::string list;
  for (const int fd : sockets) {
    fcntl(fd, F_SETFD, 0); // the command inherits it
    list += (list.empty() ? "" : ",") + std::to_string(fd);
  }
  return list;
}

// Runs in the child. Never returns.
[[noreturn]] void become_rank(const worker_group& group, std::uint32_t rank, std::uint16_t port,
                              const rank_sockets& sockets, pid_t launcher,
                              const std::vector<std::string>& command) {
  die_with(launcher);
  set_rank_environment(group, rank, port);
  if (rank == 0) {
    set_variable("BATON_GROUP_RANKS", inherited(sockets.of_rank_0));
  } else {
    set_variable("BATON_GROUP_LEADER", inherited({sockets.of_others[rank - 1]}));
    unsetenv("BATON_WORKER_DOOR"); // only rank 0 greets there
  }
  _exit(become_command(command));
}

// Ends this process like `status`: by the same signal, if it was one.
int end_as(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  const rlimit none{0, 0}; // the rank has written its core file
  setrlimit(RLIMIT_CORE, &none);
  std::signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
  constexpr int signalled = 128; // as in shells
  return signalled + number;
}

class ranks {
public:
  // False with errno if a rank could not be started; the started ones are killed.
  bool start(const worker_group& group, std::uint16_t port,
             const std::vector<std::string>& command) {
    rank_sockets sockets;
    if (!sockets.open(group.ranks))
      return false;
    const auto launcher = getpid();
    for (std::uint32_t i = 0; i < group.ranks; ++i) {
      const auto pid = fork();
      if (pid == 0)
        become_rank(group, i, port, sockets, launcher, command);
      if (pid < 0) {
        const int why = errno;
        signal_all(SIGKILL);
        errno = why;
        return false;
      }
      pids_.push_back(pid);
      ++alive_;
    }
    return true;
  }

  // Returns when all have ended. Requires: the signals of `waited` are blocked.
  int run(const sigset_t& waited) {
    while (alive_ > 0) {
      const timespec pause{0, std::chrono::nanoseconds(signal_poll).count()};
      const int number = sigtimedwait(&waited, nullptr, &pause);
      if (number == SIGTERM)
        signal_rank(0, SIGTERM);
      reap();
      if (farewell_ && rank_clock::now() >= *farewell_)
        signal_all(SIGKILL);
    }
    return result_ ? end_as(*result_) : exit_failed;
  }

private:
  void reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto at = std::find(pids_.begin(), pids_.end(), pid);
      if (at == pids_.end())
        continue; // not a rank
      *at = 0;
      --alive_;
      ended(static_cast<std::size_t>(at - pids_.begin()), status);
    }
  }

  void ended(std::size_t rank, int status) {
    if (is_killed_ || result_)
      return; // it was asked to end
    const bool is_orderly = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_orderly) {
      result_ = status;
      is_killed_ = true;
      signal_all(SIGKILL);
      return;
    }
    if (rank == 0) {
      result_ = status;
      signal_all(SIGTERM);
    }
    if (!farewell_) // for any rank: without it there is no group
      farewell_ = rank_clock::now() + farewell_max;
  }

  void signal_rank(std::size_t rank, int number) {
    if (pids_[rank] > 0)
      kill(pids_[rank], number);
  }
  void signal_all(int number) {
    is_killed_ = is_killed_ || number == SIGKILL;
    for (std::size_t i = 0; i < pids_.size(); ++i)
      signal_rank(i, number);
  }

  std::vector<pid_t> pids_; // by rank; 0: ended
  std::size_t alive_ = 0;
  bool is_killed_ = false;
  std::optional<int> result_; // the group's, a status of waitpid
  std::optional<rank_clock::time_point> farewell_;
};

int refuse_group(const char* what) {
  std::fprintf(stderr, "- - %s: %s\n", what, std::strerror(errno));
  return exit_failed;
}

} // namespace

int become_command(const std::vector<std::string>& command) {
  // Restores default signal handling for the program.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> argv;
  for (const auto& arg : command)
    argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const std::string why = std::strerror(errno);
  std::fprintf(stderr, "- - cannot run '%s': %s\n", argv[0], why.c_str());
  return exit_permanent;
}

int run_group(const worker_group& group, const std::vector<std::string>& command) {
  sigset_t waited;
  sigemptyset(&waited);
  sigaddset(&waited, SIGTERM);
  sigaddset(&waited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &waited, nullptr);
  const auto port = free_port();
  if (port == 0)
    return refuse_group("no port for the ranks of a worker");
  ranks all;
  if (!all.start(group, port, command))
    return refuse_group("the ranks of a worker cannot be started");
  return all.run(waited);
}

} // namespace baton::cluster
