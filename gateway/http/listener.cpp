#include "gateway/http/listener.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

namespace baton::gateway {

result<void> listener::bind(const listen_address& at, bool shares) {
  const auto& endpoint = at.endpoint;
  const auto& text = at.text;
  error_code ec;
  is_shared = shares;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) {
    const int yes = 1;
    if (is_shared &&
        ::setsockopt(acceptor.native_handle(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) != 0) {
      return fail_param(errc::io_failed, param, "{}: this system shares no ports", text);
    }
    acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    acceptor.bind(endpoint, ec);
  }
  if (!ec && !is_shared) {
    acceptor.listen(asio::socket_base::max_listen_connections, ec);
  }
  if (ec == asio::error::address_in_use) {
    return fail_param(errc::address_in_use, param, "gateway.{}: {} is in use by another process",
                      param, text);
  }
  if (ec) {
    return fail_param(errc::io_failed, param, "gateway.{}: cannot listen on {}: {}", param, text,
                      ec.message());
  }
  bound = acceptor.local_endpoint(ec);
  return {};
}

std::string listener::address() const {
  const auto host = bound.address().to_string();
  return fmt::format("{}:{}", bound.address().is_v6() ? "[" + host + "]" : host, bound.port());
}

} // namespace baton::gateway
