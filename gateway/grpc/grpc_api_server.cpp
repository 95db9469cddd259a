#include "gateway/grpc/grpc_api_server.hpp"

#include "gateway/base/request_id.hpp"
#include "gateway/grpc/grpc_call.hpp"
#include "gateway/grpc/grpc_loader.hpp"
#include "gateway/state/request_guard.hpp"

#include <condition_variable>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::chrono::milliseconds tick_interval{500}; // interval of the checks for silent clients

// Events for the loop, added by the threads of the library and of the pipeline clients. Bounded by
// the open calls: each has at most one read and one write under way, and is rung once.
class inbox {
public:
  struct batch {
    std::deque<std::pair<std::uint64_t, grpc_event>> events; // in order of arrival
    std::unordered_set<std::uint64_t> rung;
    bool is_over = false;
  };
  void add(std::uint64_t call, grpc_event what) {
    const std::lock_guard lock(mutex_);
    now_.events.emplace_back(call, std::move(what));
    bell_.notify_one();
  }
  void ring(std::uint64_t call) {
    const std::lock_guard lock(mutex_);
    if (now_.rung.insert(call).second) {
      bell_.notify_one();
    }
  }
  void close() {
    const std::lock_guard lock(mutex_);
    now_.is_over = true;
    bell_.notify_one();
  }
  batch take() {
    std::unique_lock lock(mutex_);
    bell_.wait_for(lock, tick_interval,
                   [this] { return !now_.events.empty() || !now_.rung.empty() || now_.is_over; });
    return std::exchange(now_, batch{{}, {}, now_.is_over});
  }

private:
  std::mutex mutex_;
  std::condition_variable bell_;
  batch now_;
};

result<std::string> content_of(const char* param, const std::string& file) {
  if (file.empty()) {
    return std::string();
  }
  std::ifstream in(file, std::ios::binary);
  std::string all{std::istreambuf_iterator<char>(in), {}};
  return in.bad() || all.empty()
             ? result<std::string>(fail_param(errc::bad_config, param, "{} cannot be read", file))
             : all;
}

struct grpc_endpoint {
  grpc_service service;
  const char* param;
  std::string text;
};

std::vector<grpc_endpoint> endpoints_of(const gateway_config& config) {
  const auto& g = config.grpc;
  std::vector<grpc_endpoint> all{
      {grpc_service::kserve, "kserve_grpc", g.kserve},
      {grpc_service::torchserve_inference, "torchserve_grpc_inference", g.torchserve_inference},
      {grpc_service::torchserve_management, "torchserve_grpc_management", g.torchserve_management}};
  std::erase_if(all, [](const grpc_endpoint& p) { return p.text.empty(); });
  for (auto& p : all) {
    constexpr std::string_view local = "localhost:";
    if (p.text.starts_with(local)) {
      p.text = "127.0.0.1:" + p.text.substr(local.size());
    }
  }
  return all;
}

} // namespace

struct grpc_api_server::wall final : grpc_listener {
  std::shared_ptr<gateway_state> facts;
  admission opener;
  std::vector<grpc_endpoint> endpoints;
  std::shared_ptr<inbox> news = std::make_shared<inbox>();
  std::unordered_map<std::uint64_t, std::unique_ptr<grpc_call>> calls; // used by the loop only
  std::optional<grpc_world> world;
  std::thread thread;
  std::unique_ptr<grpc_server> server;

  wall(const request_router_actor& router, std::shared_ptr<gateway_state> b)
      : facts(b), opener(router, b, "grpc"), endpoints(endpoints_of(b->config())) {}

  void happened(std::uint64_t call, grpc_event what) noexcept override {
    news->add(call, std::move(what));
  }
  result<void> listen();
  void begin(std::uint64_t number, grpc_began what);
  void take(std::uint64_t number, grpc_event& what);
  // Runs one call's work; an exception ends only this call. `handle`: set when the call begins.
  void serve(std::uint64_t number, const std::function<void()>& what,
             grpc_call_handle* handle = nullptr);
  void loop();
};

result<void> grpc_api_server::wall::listen() {
  const auto& config = facts->config();
  const auto& bounds = config.grpc_bounds;
  auto library = load_grpc();
  if (!library) {
    return library.error();
  }
  world.emplace(grpc_world{opener, (*library)->codec()});
  grpc_settings with;
  for (const auto& p : endpoints) {
    with.addresses.push_back(p.text);
  }
  auto certificate = content_of("tls_certificate", config.tls_certificate);
  auto key = content_of("tls_key", config.tls_key);
  if (!certificate || !key) {
    return certificate ? key.error() : certificate.error();
  }
  with.certificate = *std::move(certificate);
  with.key = *std::move(key);
  with.shares_ports = config.shares_http;
  with.message_bytes_max = bounds.message_bytes_max;
  with.metadata_bytes_max = bounds.metadata_bytes_max;
  with.memory_bytes_max = bounds.memory_bytes_max;
  with.calls_per_connection_max = bounds.calls_per_connection_max;
  with.ping_interval = bounds.ping_interval;
  with.ping_timeout = bounds.ping_timeout;
  with.idle_timeout = bounds.idle_timeout;
  thread = std::thread([this] { loop(); });
  std::optional<std::size_t> taken;
  std::string why;
  server = (*library)->listen(with, *this, taken, why);
  if (server) {
    return {};
  }
  if (taken) {
    const auto& p = endpoints[*taken];
    return fail_param(errc::address_in_use, p.param, "cannot listen on {} (gateway.{}): {}", p.text,
                      p.param, why);
  }
  return fail(errc::start_failed, "the gRPC server cannot start: {}", why);
}

void grpc_api_server::wall::begin(std::uint64_t number, grpc_began what) {
  if (calls.size() >= facts->config().grpc_bounds.calls_max) {
    facts->metrics().refused(opener.protocol(), errc::overloaded);
    what.handle->greet({{"x-request-id", request_id_of(metadata_of(what.head, "x-request-id"))}});
    return what.handle->finish(grpc_failure(
        errc::overloaded,
        fmt::format("the gateway has {} open calls, its limit; try again later", calls.size())));
  }
  const auto service = endpoints.at(what.head.listener).service;
  calls.emplace(number, std::make_unique<grpc_call>(*world, service, std::move(what),
                                                    [to = news, number] { to->ring(number); }));
}

void grpc_api_server::wall::take(std::uint64_t number, grpc_event& what) {
  if (auto* began = std::get_if<grpc_began>(&what)) {
    facts->wait_informed();
    return begin(number, std::move(*began));
  }
  const auto at = calls.find(number);
  if (at == calls.end()) {
    return; // the call was refused
  }
  if (auto* read = std::get_if<grpc_read>(&what)) {
    at->second->read(std::move(read->message));
  } else if (std::holds_alternative<grpc_unread>(what)) {
    at->second->unread();
  } else if (std::holds_alternative<grpc_written>(what)) {
    at->second->written();
  } else if (std::holds_alternative<grpc_cancelled>(what)) {
    at->second->cancelled();
  } else {
    calls.erase(at);
  }
}

void grpc_api_server::wall::serve(std::uint64_t number, const std::function<void()>& what,
                                  grpc_call_handle* handle) {
  const auto fault = guarded(opener.protocol(), what);
  if (!fault) {
    return;
  }
  static_cast<void>(guarded(opener.protocol(), [&] {
    if (const auto at = calls.find(number); at != calls.end()) {
      at->second->break_off(*fault);
    } else if (handle) {
      handle->finish(grpc_failure(fault->code, fault->message));
    }
  }));
}

void grpc_api_server::wall::loop() {
  for (auto due = grpc_call::clock::now();;) {
    auto now = news->take();
    for (auto& [number, what] : now.events) {
      const auto* began = std::get_if<grpc_began>(&what);
      serve(
          number, [&, &number = number, &what = what] { take(number, what); },
          began ? began->handle : nullptr);
    }
    for (const auto number : now.rung) {
      if (const auto at = calls.find(number); at != calls.end()) {
        serve(number, [&] { at->second->look(); });
      }
    }
    if (now.is_over) {
      return;
    }
    if (const auto time = grpc_call::clock::now(); time >= due) {
      due = time + tick_interval;
      for (const auto& [number, call] : calls) {
        serve(number, [&, &call = call] {
          call->expire(time);
          call->watch();
        });
      }
    }
  }
}

bool has_grpc(const gateway_config& config) noexcept {
  const auto& g = config.grpc;
  return !g.kserve.empty() || !g.torchserve_inference.empty() || !g.torchserve_management.empty();
}

grpc_api_server::grpc_api_server(std::unique_ptr<wall> w) : wall_(std::move(w)) {}

grpc_api_server::~grpc_api_server() {
  stop();
}

result<void> grpc_api_server::check(const gateway_config& config) {
  return has_grpc(config) ? find_grpc() : result<void>();
}

result<std::unique_ptr<grpc_api_server>>
grpc_api_server::start(const request_router_actor& router, std::shared_ptr<gateway_state> facts) {
  auto server = std::make_unique<grpc_api_server>(std::make_unique<wall>(router, std::move(facts)));
  if (auto ok = server->wall_->listen(); !ok) {
    return ok.error();
  }
  return server;
}

std::string grpc_api_server::address(grpc_service service) const {
  for (std::size_t i = 0; i < wall_->endpoints.size(); ++i) {
    const auto& p = wall_->endpoints[i];
    if (p.service == service) {
      return fmt::format("{}:{}", p.text.substr(0, p.text.rfind(':')), wall_->server->port(i));
    }
  }
  return {};
}

void grpc_api_server::stop() {
  if (wall_->server) {
    wall_->server->stop(); // the loop finishes the cancelled calls
  }
  wall_->news->close();
  if (wall_->thread.joinable()) {
    wall_->thread.join();
  }
}

} // namespace baton::gateway
