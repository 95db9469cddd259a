#include "gateway/tracing/otlp_endpoint.hpp"

#include <algorithm>
#include <charconv>

namespace baton::gateway {
namespace {

constexpr std::string_view http_scheme = "http://";
constexpr std::string_view traces_path = "/v1/traces";

template <class... Args>
error refuse(fmt::format_string<Args...> text, Args&&... args) {
  return fail_param(errc::bad_config, "otlp_endpoint", text, std::forward<Args>(args)...);
}

// The characters of a name or an address; none of them could form a header line or a path.
bool is_host_char(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool is_path_char(char c) noexcept {
  return is_host_char(c) || c == '/' || c == '~' || c == '%' || c == ':' || c == '+';
}

bool is_host(std::string_view host, bool is_v6) noexcept {
  return !host.empty() && std::all_of(host.begin(), host.end(), [is_v6](char c) {
    return is_v6 ? c == ':' || c == '.' || is_host_char(c) : is_host_char(c);
  });
}

} // namespace

std::string otlp_endpoint::host_header() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

result<otlp_endpoint> parse_otlp_endpoint(std::string_view text) {
  if (text.starts_with("https://")) {
    return refuse(
        "gateway.otlp_endpoint = '{}': spans are sent over http:// alone; put a collector "
        "on this machine, which speaks TLS to the others",
        text);
  }
  if (!text.starts_with(http_scheme)) {
    return refuse("gateway.otlp_endpoint = '{}' is no URL: write http://HOST:PORT (OTLP over HTTP, "
                  "port 4318 of a collector; not gRPC's 4317)",
                  text);
  }
  const auto rest = text.substr(http_scheme.size());
  const auto slash = std::min(rest.find('/'), rest.size());
  const auto address = rest.substr(0, slash);
  auto path = rest.substr(slash);
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  const auto colon = address.rfind(':');
  const bool is_v6 = address.starts_with('[');
  auto host = address.substr(0, colon);
  if (is_v6 && colon != std::string_view::npos && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  std::uint16_t port = 0;
  if (colon != std::string_view::npos) {
    const auto digits = address.substr(colon + 1);
    const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    port = bad == std::errc() && end == digits.data() + digits.size() ? port : std::uint16_t{0};
  }
  if (port == 0 || !is_host(host, is_v6)) {
    return refuse("gateway.otlp_endpoint = '{}': write http://HOST:PORT, 4318 is the usual port",
                  text);
  }
  if (!std::all_of(path.begin(), path.end(), is_path_char)) {
    return refuse("gateway.otlp_endpoint = '{}': a path without a query is all that may follow the "
                  "port",
                  text);
  }
  const bool is_whole = path.ends_with(traces_path);
  return otlp_endpoint{std::string(host), port,
                       fmt::format("{}{}", path, is_whole ? "" : traces_path)};
}

} // namespace baton::gateway
