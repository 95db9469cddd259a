// One address that the HTTP server listens on, with its acceptor. Heavy: Asio.
#pragma once

#include "gateway/connections/client_socket.hpp"
#include "gateway/http/listen_address.hpp"
#include "schema/result.hpp"

#include <boost/asio/strand.hpp>

#include <string>

namespace baton::gateway {

struct listener {
  listener_kind kind;
  const char* param; // its key of the configuration
  tcp::acceptor acceptor;
  tcp::endpoint bound;
  bool is_shared = false;

  listener(asio::io_context& io, listener_kind d, const char* p)
      : kind(d), param(p), acceptor(asio::make_strand(io)) {}
  // `shares`: with other processes of this user that share it too. The system spreads the
  // connections among them (SO_REUSEPORT). A shared address is bound here and listens later.
  // Errors: address_in_use, io_failed.
  result<void> bind(const listen_address& at, bool shares);
  std::string address() const; // with the actual port
};

} // namespace baton::gateway
