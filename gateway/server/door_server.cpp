#include "gateway/server/door_server.hpp"

#include "gateway/auth/crash_record.hpp"
#include "gateway/base/access_log.hpp"
#include "gateway/grpc/grpc_door.hpp"
#include "gateway/http/http_server.hpp"
#include "gateway/server/span_exporter.hpp"
#include "gateway/zmq/zmq_door.hpp"

#include <spdlog/spdlog.h>

namespace baton::gateway {
namespace {

// If the file cannot be opened, the gateway serves requests without a crash record.
void open_crash_record(gateway_state& facts) {
  const auto& file = facts.config().crash_record;
  if (file.empty()) {
    return;
  }
  auto record = crash_record::open(file, crash_record::clock::now());
  if (!record) {
    spdlog::warn("{}", record.error().message);
    return;
  }
  for (const auto& s : (*record)->found()) {
    spdlog::error("a request of {} crashed this gateway's last process ({} within an hour); its "
                  "requests are refused for {} s",
                  s.client, s.crashes, s.refused_for.count());
  }
  facts.set_crashes(*std::move(record));
}

} // namespace

door_server::door_server(std::unique_ptr<http_server> http, std::unique_ptr<zmq_door> zmq,
                         std::unique_ptr<grpc_door> grpc, std::unique_ptr<span_exporter> exporter)
    : http_(std::move(http)), zmq_(std::move(zmq)), grpc_(std::move(grpc)),
      exporter_(std::move(exporter)) {}

door_server::~door_server() {
  stop();
}

result<std::unique_ptr<door_server>> door_server::start(caf::actor_system&,
                                                        std::shared_ptr<gateway_state> facts,
                                                        request_router_actor router) {
  if (const auto& file = facts->config().access_log; !file.empty()) {
    if (auto log = access_log::open(file)) {
      facts->set_access_log(*std::move(log));
    } else {
      spdlog::warn("{}", log.error().message); // serve requests without an access log
    }
  }
  open_crash_record(*facts);
  std::unique_ptr<span_exporter> exporter;
  if (facts->tracer()) {
    auto started = span_exporter::start(facts);
    if (!started) {
      return started.error();
    }
    exporter = *std::move(started);
  }
  std::unique_ptr<zmq_door> zmq;
  if (!facts->config().zmq.empty()) {
    auto started = zmq_door::start(router, facts);
    if (!started) {
      return started.error();
    }
    zmq = *std::move(started);
  }
  auto http = http_server::start(router, facts);
  if (!http) {
    return http.error();
  }
  std::unique_ptr<grpc_door> grpc; // after HTTP: http_server has validated this address as well
  if (has_grpc(facts->config())) {
    auto started = grpc_door::start(router, facts);
    if (!started) {
      return started.error();
    }
    grpc = *std::move(started);
  }
  return std::make_unique<door_server>(*std::move(http), std::move(zmq), std::move(grpc),
                                       std::move(exporter));
}

std::string door_server::url() const {
  return http_->url(door_kind::clients);
}

std::string door_server::admin_url() const {
  return http_->url(door_kind::admin);
}

std::string door_server::url(door_kind door) const {
  return http_->url(door);
}

result<void> door_server::reload_certificate() {
  return http_->reload_certificate();
}

std::string door_server::zmq_endpoint() const {
  return zmq_ ? zmq_->endpoint() : std::string();
}

std::string door_server::grpc_address(grpc_service service) const {
  return grpc_ ? grpc_->address(service) : std::string();
}

void door_server::stop() {
  if (grpc_) {
    grpc_->stop();
  }
  http_->stop();
  if (zmq_) {
    zmq_->stop();
  }
  if (exporter_) {
    exporter_->stop();
  }
}

} // namespace baton::gateway
