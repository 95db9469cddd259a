#include "gateway/http/listen_address.hpp"

#include <charconv>

namespace baton::gateway {
namespace {

struct address_text {
  std::string host;
  std::string port;
};

// "127.0.0.1:8000", "[::1]:8000", "localhost:8000". `param`: its key of the configuration.
result<address_text> split_address(const char* param, const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return fail_param(errc::bad_config, param, "'{}' is not an address: write HOST:PORT", text);
  }
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return address_text{host == "localhost" ? "127.0.0.1" : host, text.substr(colon + 1)};
}

result<tcp::endpoint> parse_endpoint(const char* param, const std::string& text) {
  const auto parts = split_address(param, text);
  if (!parts) {
    return parts.error();
  }
  error_code ec;
  const auto address = asio::ip::make_address(parts->host, ec);
  std::uint16_t port = 0;
  const auto* end = parts->port.data() + parts->port.size();
  const auto [stop, bad] = std::from_chars(parts->port.data(), end, port);
  if (ec || bad != std::errc{} || stop != end) {
    return fail_param(errc::bad_config, param,
                      "'{}' is not an address: write an IP address, ':' and a port below 65536",
                      text);
  }
  return tcp::endpoint(address, port);
}

// Other machines may reach it only if keys are needed, or the configuration allows it without.
result<void> check_reach(const listen_address& at, const gateway_config& config) {
  if (at.endpoint.address().is_loopback() || config.keys || config.allow_unauthenticated) {
    return {};
  }
  return fail_param(errc::bad_config, at.param,
                    "gateway.{} = '{}' can be reached from other machines, and there are no "
                    "API keys: make one with `cluster keygen --api NAME keys.toml` and set "
                    "gateway.api_keys = \"keys.toml\"; or set gateway.allow_unauthenticated = "
                    "true if anyone who reaches it may use it",
                    at.param, at.text);
}

} // namespace

result<std::vector<listen_address>> read_addresses(const gateway_config& config) {
  const auto& ts = config.torchserve;
  const auto& g = config.grpc;
  const bool shares = config.shares_http;
  using enum listener_kind;
  const auto plain = [](listener_kind kind, const char* param, const std::string& text,
                        bool is_shared) {
    return listen_address{
        .kind = kind, .param = param, .text = text, .endpoint = {}, .is_shared = is_shared};
  };
  const auto of_grpc = [shares](listener_kind kind, const char* param, const std::string& text) {
    return listen_address{.kind = kind,
                          .param = param,
                          .text = text,
                          .endpoint = {},
                          .is_shared = shares,
                          .is_grpc = true};
  };
  std::vector<listen_address> all{
      plain(clients, "http", config.http, shares),
      plain(admin, "admin", config.admin, false),
      plain(ollama, "ollama", config.ollama, shares),
      plain(torchserve_inference, "torchserve_inference", ts.inference, shares),
      plain(torchserve_management, "torchserve_management", ts.management, shares),
      plain(torchserve_metrics, "torchserve_metrics", ts.metrics, false),
      of_grpc(clients, "kserve_grpc", g.kserve),
      of_grpc(torchserve_inference, "torchserve_grpc_inference", g.torchserve_inference),
      of_grpc(torchserve_management, "torchserve_grpc_management", g.torchserve_management)};
  std::erase_if(all, [](const listen_address& p) {
    return p.text.empty() && (p.is_grpc || p.kind != listener_kind::clients);
  });
  for (auto& at : all) {
    const auto endpoint = parse_endpoint(at.param, at.text);
    if (!endpoint) {
      return endpoint.error();
    }
    at.endpoint = *endpoint;
    if (at.kind == listener_kind::admin && !endpoint->address().is_loopback()) {
      return fail_param(errc::bad_config, at.param,
                        "gateway.admin = '{}' is not a loopback address: it asks for no key",
                        at.text);
    }
    if (auto ok = check_reach(at, config); !ok) {
      return ok.error();
    }
    for (const auto& other : all) {
      if (&other == &at) {
        break;
      }
      if (endpoint->port() != 0 && other.endpoint == *endpoint) {
        return fail_param(errc::bad_config, at.param,
                          "gateway.{} and gateway.{} are both '{}': each needs an address of its "
                          "own",
                          other.param, at.param, at.text);
      }
    }
  }
  return all;
}

} // namespace baton::gateway
