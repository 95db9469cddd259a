#include "cluster/process/standby.hpp"

#include "cluster/process/child.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace baton::cluster {
namespace {

struct orders {
  std::uint64_t incarnation = 0;
  std::int32_t parent = 0;
};

// A message with an attached file descriptor.
struct packet {
  orders what;
  iovec part{&what, sizeof what};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  packet() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  packet(const packet&) = delete;
  packet& operator=(const packet&) = delete;

  void attach(int file) {
    if (file < 0) {
      message.msg_controllen = 0;
      return;
    }
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  int attached() {
    int file = -1;
    if (const auto* header = CMSG_FIRSTHDR(&message);
        header != nullptr && header->cmsg_type == SCM_RIGHTS)
      std::memcpy(&file, CMSG_DATA(header), sizeof file);
    return file;
  }
};

// Returns when the agent activates it; exits with the agent.
standby_orders wait_for_activation(int socket) {
  const std::int32_t pid = getpid();
  if (send(socket, &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid)
    _exit(0);
  for (;;) {
    packet p;
    const auto got = recvmsg(socket, &p.message, MSG_CMSG_CLOEXEC);
    if (got == sizeof p.what)
      return {{p.what.incarnation}, p.what.parent, p.attached()};
    if (got >= 0 || errno != EINTR)
      _exit(0);
  }
}

// As child_watch::start does for an executed process.
void become(const standby_orders& given) {
  setpgid(0, 0);
  die_with(given.parent);
}

} // namespace

std::optional<standby_orders> fork_standby(int socket) {
  std::signal(SIGCHLD, SIG_IGN); // an unused standby leaves no zombie
  std::optional<standby_orders> given;
  while (fork() == 0)
    given = wait_for_activation(socket); // and fork the next standby
  if (given)
    become(*given);
  return given;
}

result<standby_channel> standby_channel::create() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(errc::io_failed, "socketpair: {}", std::strerror(errno));
  return standby_channel(ends[0], ends[1]);
}

standby_channel::~standby_channel() {
  for (const int fd : {ours_, theirs_})
    if (fd >= 0)
      close(fd);
}

std::optional<std::int32_t> standby_channel::activate(const standby_orders& given) {
  std::int32_t pid = 0;
  if (recv(ours_, &pid, sizeof pid, MSG_DONTWAIT) != sizeof pid)
    return std::nullopt;
  packet p;
  p.what = {given.incarnation.value, given.parent};
  p.attach(given.file);
  if (sendmsg(ours_, &p.message, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof p.what)
    return std::nullopt;
  return pid;
}

} // namespace baton::cluster
