// The part of the ZeroMQ Authentication Protocol 1.0 (rfc.zeromq.org/spec/27) that a bus needs.
// Over an inproc socket of its context, ZeroMQ asks whether to accept a connection with this key.
// Included by bus_zmq*.cpp only.
#pragma once

#include "cluster/keys/curve_key.hpp"

#include <zmq.hpp>

#include <functional>
#include <string>

namespace baton::cluster {

// The 32 bytes of a key, in the form of libzmq's socket options.
void set_key(zmq::socket_t& s, int option, const std::string& hex);
// Makes `s` accept encrypted connections only, each checked by this context's zap_authenticator.
void serve_encrypted(zmq::socket_t& s, const key_pair& own);
// Makes `s` connect to the owner of `server_key`.
void connect_encrypted(zmq::socket_t& s, const key_pair& own, const std::string& server_key);

class zap_authenticator {
public:
  // Requires: no socket of the context is bound yet.
  explicit zap_authenticator(zmq::context_t& context);
  void* handle() { return socket_.handle(); }
  int fd() { return socket_.get(zmq::sockopt::fd); } // readable when requests may be pending
  // Answers pending requests; a key is 64 hex digits, or empty if there is none. Accepted peers are
  // identified by it (message_t::gets("User-Id")).
  void judge(const std::function<bool(const std::string& public_key)>& may_come);
  void close() { socket_.close(); }

private:
  zmq::socket_t socket_;
};

} // namespace baton::cluster
