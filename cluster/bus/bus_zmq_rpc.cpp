#include "cluster/bus/bus_zmq_rpc.hpp"

#include "cluster/bus/bus_endpoint.hpp"
#include "cluster/bus/bus_zmq_zap.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

namespace baton::cluster {
namespace {

constexpr int messages_queued_max = 100;
constexpr int handshake_timeout_ms = 3000;
constexpr std::chrono::milliseconds server_poll_timeout{500}; // nothing depends on it

void set_bounds(zmq::socket_t& s, std::size_t bytes_max) {
  s.set(zmq::sockopt::linger, 0);
  s.set(zmq::sockopt::sndhwm, messages_queued_max);
  s.set(zmq::sockopt::rcvhwm, messages_queued_max);
  s.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(bytes_max));
  s.set(zmq::sockopt::handshake_ivl, handshake_timeout_ms);
}

// Expects a DEALER's routing id and one frame; in any other case `request` is empty.
bool receive_request(zmq::socket_t& router, zmq::message_t& id, zmq::message_t& request) {
  if (!router.recv(id, zmq::recv_flags::dontwait))
    return false;
  std::size_t count = 0;
  for (bool has_more = id.more(); has_more; ++count) {
    if (!router.recv(request, zmq::recv_flags::dontwait))
      break;
    has_more = request.more();
  }
  if (count != 1)
    request.rebuild();
  return true;
}

std::string key_of(zmq::message_t& request) {
  try {
    return request.gets("User-Id");
  } catch (const zmq::error_t&) {
    return {};
  }
}

} // namespace

struct rpc_server::state {
  zmq::context_t context{1};
  zap_authenticator authenticator{context};
  zmq::socket_t router{context, zmq::socket_type::router};
  int wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::atomic<bool> is_stopping = false;
  handler answer;
  std::thread thread;

  ~state() { ::close(wake_fd); }

  void answer_all() {
    zmq::message_t id;
    zmq::message_t request;
    while (!is_stopping && receive_request(router, id, request)) {
      if (request.empty())
        continue;
      const auto text = answer(request.to_string_view(), key_of(request));
      // A client that does not read its answer asks again.
      if (router.send(id, zmq::send_flags::sndmore | zmq::send_flags::dontwait))
        static_cast<void>(router.send(zmq::buffer(text), zmq::send_flags::dontwait));
    }
  }

  void run() {
    pthread_setname_np(pthread_self(), "baton-rpc");
    sigset_t all; // signals are for main
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    zmq::pollitem_t items[] = {{router.handle(), 0, ZMQ_POLLIN, 0},
                               {authenticator.handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, wake_fd, ZMQ_POLLIN, 0}};
    try {
      while (!is_stopping) {
        zmq::poll(items, std::size(items), server_poll_timeout);
        authenticator.judge([](const std::string& key) { return !key.empty(); });
        answer_all();
      }
    } catch (const zmq::error_t& e) {
      ENSURE(false, "the RPC thread: {}", e.what());
    }
  }
};

rpc_server::rpc_server(std::unique_ptr<state> s) : state_(std::move(s)) {}

result<std::unique_ptr<rpc_server>> rpc_server::open(const std::string& endpoint,
                                                     const key_pair& own, handler answer) {
  if (auto ok = check_endpoint(endpoint, true); !ok)
    return ok.error();
  auto s = std::make_unique<state>();
  if (s->wake_fd < 0)
    return fail(errc::io_failed, "no eventfd: {}", std::strerror(errno));
  s->answer = std::move(answer);
  try {
    set_bounds(s->router, rpc_request_bytes_max);
    serve_encrypted(s->router, own);
    s->router.bind(endpoint);
  } catch (const zmq::error_t& e) {
    return fail(e.num() == EADDRINUSE ? errc::address_in_use : errc::io_failed,
                "cannot listen on '{}': {}", endpoint, e.what());
  }
  s->thread = std::thread([server = s.get()] { server->run(); });
  return std::unique_ptr<rpc_server>(new rpc_server(std::move(s)));
}

rpc_server::~rpc_server() {
  state_->is_stopping = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(state_->wake_fd, &one, sizeof(one)));
  state_->thread.join();
}

struct rpc_client::state {
  std::string address;
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::dealer};
};

rpc_client::rpc_client(std::unique_ptr<state> s) : state_(std::move(s)) {}
rpc_client::rpc_client(rpc_client&&) noexcept = default;
rpc_client::~rpc_client() = default;

result<rpc_client> rpc_client::open(const std::string& server, const key_pair& own) {
  const auto to = split_key(server);
  if (to.key.empty())
    return fail(errc::bad_config, "'{}' has no key: use tcp://HOST:PORT#KEY", server);
  if (auto ok = check_endpoint(to.address, true); !ok)
    return ok.error();
  auto s = std::make_unique<state>();
  s->address = to.address;
  try {
    set_bounds(s->socket, rpc_answer_bytes_max);
    connect_encrypted(s->socket, own, to.key);
    s->socket.connect(to.address);
  } catch (const zmq::error_t& e) {
    return fail(errc::bad_config, "cannot ask '{}': {}", to.address, e.what());
  }
  return rpc_client(std::move(s));
}

result<std::string> rpc_client::call(const std::string& request,
                                     std::chrono::milliseconds patience) {
  auto& s = state_->socket;
  try {
    static_cast<void>(s.send(zmq::buffer(request), zmq::send_flags::dontwait));
    zmq::pollitem_t item{s.handle(), 0, ZMQ_POLLIN, 0};
    zmq::poll(&item, 1, patience);
    zmq::message_t answer;
    if (s.recv(answer, zmq::recv_flags::dontwait))
      return answer.to_string();
  } catch (const zmq::error_t& e) {
    return fail(errc::bad_config, "cannot ask '{}': {}", state_->address, e.what());
  }
  return fail(
      errc::link_down,
      "{} does not answer: is `cluster up` running there, is the port open, is this its key?",
      state_->address);
}

result<std::string> rpc_call(const std::string& server, const key_pair& own,
                             const std::string& request, std::chrono::milliseconds patience) {
  auto client = rpc_client::open(server, own);
  return client ? client->call(request, patience) : client.error();
}

} // namespace baton::cluster
