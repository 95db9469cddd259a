#include "gateway/connections/client_socket.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace baton::gateway {
namespace {

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

} // namespace

error_code client_socket::error_of(tls_step step) {
  switch (step) {
  case tls_step::done:
    return {};
  case tls_step::wants_read:
  case tls_step::wants_write:
    return asio::error::would_block;
  case tls_step::closed:
    return asio::error::eof;
  case tls_step::failed:
    break;
  }
  return asio::error::connection_reset;
}

client_socket::~client_socket() {
  if (layers_) {
    error_code ignored;
    layers_->socket.close(ignored);
  }
}

asio::awaitable<bool> client_socket::secure(const tls_context& context) {
  auto& socket = layers_->socket;
  auto session = std::make_unique<tls_session>(context, socket.native_handle());
  while (socket.is_open()) {
    const auto step = session->shake_hands();
    if (step == tls_step::done) {
      layers_->tls = std::move(session);
      co_return true;
    }
    if (step != tls_step::wants_read && step != tls_step::wants_write) {
      break;
    }
    if (auto [ec] = co_await socket.async_wait(wait_for(step), as_value); ec) {
      break;
    }
  }
  co_return false;
}

asio::awaitable<error_code> client_socket::wait_readable() {
  if (layers_->tls && layers_->tls->has_buffered()) {
    co_return error_code();
  }
  auto [ec] = co_await layers_->socket.async_wait(tcp::socket::wait_read, as_value);
  co_return ec;
}

std::size_t client_socket::read_some(asio::mutable_buffer to, error_code& ec) {
  auto& [socket, tls] = *layers_;
  if (!tls || !socket.is_open()) {
    return socket.read_some(to, ec);
  }
  const auto did = tls->read(static_cast<char*>(to.data()), to.size());
  ec = error_of(did.step);
  return did.bytes;
}

std::size_t client_socket::write_some(asio::const_buffer from, error_code& ec) {
  auto& [socket, tls] = *layers_;
  if (!tls || !socket.is_open()) {
    return socket.write_some(from, ec);
  }
  const auto did =
      tls->write(static_cast<const char*>(from.data()), std::min(from.size(), record_bytes_max));
  ec = error_of(did.step);
  return did.bytes;
}

void client_socket::send_close_notify() {
  if (layers_->tls && layers_->socket.is_open()) {
    layers_->tls->send_close_notify();
  }
}

} // namespace baton::gateway
