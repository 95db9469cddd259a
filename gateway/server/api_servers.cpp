#include "gateway/server/api_servers.hpp"

#include "gateway/auth/crash_record.hpp"
#include "gateway/base/access_log.hpp"
#include "gateway/grpc/grpc_api_server.hpp"
#include "gateway/http/http_server.hpp"
#include "gateway/server/span_exporter.hpp"
#include "gateway/zmq/zmq_server.hpp"

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

api_servers::api_servers(std::unique_ptr<http_server> http, std::unique_ptr<zmq_server> zmq,
                         std::unique_ptr<grpc_api_server> grpc,
                         std::unique_ptr<span_exporter> exporter)
    : http_(std::move(http)), zmq_(std::move(zmq)), grpc_(std::move(grpc)),
      exporter_(std::move(exporter)) {}

api_servers::~api_servers() {
  stop();
}

result<std::unique_ptr<api_servers>> api_servers::start(caf::actor_system&,
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
  std::unique_ptr<zmq_server> zmq;
  if (!facts->config().zmq.empty()) {
    auto started = zmq_server::start(router, facts);
    if (!started) {
      return started.error();
    }
    zmq = *std::move(started);
  }
  auto http = http_server::start(router, facts);
  if (!http) {
    return http.error();
  }
  std::unique_ptr<grpc_api_server>
      grpc; // after HTTP: http_server has validated this address as well
  if (has_grpc(facts->config())) {
    auto started = grpc_api_server::start(router, facts);
    if (!started) {
      return started.error();
    }
    grpc = *std::move(started);
  }
  return std::make_unique<api_servers>(*std::move(http), std::move(zmq), std::move(grpc),
                                       std::move(exporter));
}

std::string api_servers::url() const {
  return http_->url(listener_kind::clients);
}

std::string api_servers::admin_url() const {
  return http_->url(listener_kind::admin);
}

std::string api_servers::url(listener_kind listener) const {
  return http_->url(listener);
}

result<void> api_servers::reload_certificate() {
  return http_->reload_certificate();
}

std::string api_servers::zmq_endpoint() const {
  return zmq_ ? zmq_->endpoint() : std::string();
}

std::string api_servers::grpc_address(grpc_service service) const {
  return grpc_ ? grpc_->address(service) : std::string();
}

void api_servers::stop() {
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
