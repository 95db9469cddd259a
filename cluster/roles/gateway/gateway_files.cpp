#include "cluster/roles/gateway/gateway_files.hpp"

#include "cluster/bus/reach.hpp"
#include "cluster/config/readers/api_key_file.hpp"
#include "gateway/grpc/grpc_api_server.hpp"

#include <spdlog/spdlog.h>

#include <charconv>

namespace baton::cluster {
namespace {

std::vector<std::filesystem::path> named(std::initializer_list<std::filesystem::path> files) {
  std::vector<std::filesystem::path> all;
  for (const auto& file : files)
    if (!file.empty())
      all.push_back(file);
  return all;
}

// For the third gateway, "127.0.0.1:8001" becomes "127.0.0.1:8003". A malformed address stays
// unchanged: the server reports it.
std::string port_behind(const std::string& address, std::uint32_t index) {
  const auto colon = address.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos)
    return address;
  const auto* const end = address.data() + address.size();
  const auto [at, error] = std::from_chars(address.data() + colon + 1, end, port);
  if (error != std::errc() || at != end || port == 0) // 0: each takes a free port
    return address;
  return fmt::format("{}:{}", address.substr(0, colon), port + index);
}

} // namespace

std::string name_of_gateway(std::uint32_t index) {
  return index == 0 ? "gateway" : fmt::format("gateway-{}", index);
}

result<std::optional<std::vector<gateway::api_key>>> load_keys_of(const gateway_section& section) {
  if (section.api_keys.empty())
    return std::optional<std::vector<gateway::api_key>>();
  auto keys = load_api_keys(section.api_keys);
  if (!keys) {
    auto e = keys.error();
    e.message = fmt::format("gateway.api_keys: {}", e.message);
    return e;
  }
  return std::optional(std::move(*keys));
}

gateway::gateway_config gateway_settings(const gateway_section& section,
                                         std::optional<std::vector<gateway::api_key>> keys,
                                         std::uint32_t index) {
  gateway::gateway_config c;
  c.http = section.http;
  c.shares_http = section.processes > 1;
  c.admin = port_behind(section.admin, index);
  c.ollama = section.ollama;
  c.torchserve = {section.torchserve_inference, section.torchserve_management,
                  port_behind(section.torchserve_metrics, index)};
  c.grpc = {section.kserve_grpc, section.torchserve_grpc_inference,
            section.torchserve_grpc_management};
  c.zmq = index == 0 ? section.zmq : "";
  c.tls_certificate = section.tls_certificate;
  c.tls_key = section.tls_key;
  c.allow_unauthenticated = section.allow_unauthenticated;
  c.keys = std::move(keys);
  return c;
}

result<void> check_gateway(const gateway_section& section) {
  auto keys = load_keys_of(section);
  if (!keys)
    return keys.error();
  // The last gateway has the highest port.
  const auto settings = gateway_settings(section, std::move(*keys), section.processes - 1);
  if (auto ok = gateway::http_server::check(settings); !ok)
    return ok;
  return gateway::grpc_api_server::check(settings);
}

namespace {

// Malformed endpoints are ignored here: the ZeroMQ server reports them.
result<void> check_zmq_is_free(const std::string& endpoint) {
  constexpr std::string_view tcp = "tcp://";
  const auto colon = endpoint.rfind(':');
  std::uint16_t port = 0;
  if (!endpoint.starts_with(tcp) || colon < tcp.size())
    return {};
  const auto* const end = endpoint.data() + endpoint.size();
  const auto [at, error] = std::from_chars(endpoint.data() + colon + 1, end, port);
  if (error != std::errc() || at != end || port == 0)
    return {};
  const auto ok = check_port_is_free(endpoint.substr(tcp.size(), colon - tcp.size()), port);
  if (ok || ok.error().code == errc::bad_config)
    return {};
  return fail_param(ok.error().code, "zmq", "gateway.zmq: {}", ok.error().message);
}

} // namespace

result<void> check_gateway_is_free(const gateway_section& section) {
  auto keys = load_keys_of(section);
  if (!keys)
    return keys.error();
  for (std::uint32_t i = 0; i < section.processes; ++i)
    if (auto ok = gateway::http_server::check_free(gateway_settings(section, *keys, i)); !ok)
      return ok;
  return check_zmq_is_free(section.zmq);
}

std::vector<gateway::http_server::remark> remarks_on_gateway(const gateway_section& section) {
  auto keys = load_keys_of(section);
  if (!keys)
    return {};
  return gateway::http_server::remarks(gateway_settings(section, std::move(*keys)),
                                       std::chrono::system_clock::now());
}

gateway_files::gateway_files(gateway_section section)
    : section_(std::move(section)), keys_(named({section_.api_keys})),
      certificate_(named({section_.tls_certificate, section_.tls_key})) {}

void gateway_files::attach(std::shared_ptr<gateway::gateway_state> state,
                           std::shared_ptr<gateway::api_servers> servers) {
  state_ = std::move(state);
  servers_ = std::move(servers);
}

void gateway_files::reload_keys() {
  auto keys = load_keys_of(section_);
  if (!keys) {
    keys_wrong_ = keys.error().message + "; the keys from before stay";
    spdlog::error("{}", keys_wrong_);
    return;
  }
  keys_wrong_.clear();
  spdlog::info("{} API keys from {}", (*keys)->size(), section_.api_keys.string());
  state_->authenticator().replace(gateway::key_ring(std::move(**keys)),
                                  gateway::authenticator::instant::clock::now());
}

void gateway_files::reload_certificate() {
  certificate_wrong_.clear();
  if (auto ok = servers_->reload_certificate(); !ok) {
    certificate_wrong_ = ok.error().message + "; the certificate from before stays";
    spdlog::error("{}", certificate_wrong_);
    return;
  }
  spdlog::info("the certificate of {} is in use", section_.tls_certificate.string());
  for (const auto& r : remarks_on_gateway(section_))
    spdlog::warn("{}: {}", r.what, r.fix);
}

void gateway_files::look(const std::function<void(const std::string& why)>& report) {
  const bool has_keys = keys_.has_changed();
  const bool has_certificate = certificate_.has_changed();
  if (has_keys)
    reload_keys();
  if (has_certificate)
    reload_certificate();
  if (has_keys || has_certificate)
    report(keys_wrong_.empty() || certificate_wrong_.empty()
               ? keys_wrong_ + certificate_wrong_
               : fmt::format("{}; {}", keys_wrong_, certificate_wrong_));
}

} // namespace baton::cluster
