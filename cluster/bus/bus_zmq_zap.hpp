// The ZeroMQ Authentication Protocol 1.0 (rfc.zeromq.org/spec/27), as far as a bus needs it: ZeroMQ
// asks over a socket of the context's own whether a connection with this key may come in. Included
// by bus_zmq*.cpp alone.
#pragma once

#include "cluster/config/curve_key.hpp"

#include <zmq.hpp>

#include <functional>
#include <string>

namespace baton::cluster {

// The 32 bytes of a key, as libzmq's socket options take them.
void set_key(zmq::socket_t& s, int option, const std::string& hex);
// Makes `s` a socket that takes encrypted connections only, each judged by this context's
// doorkeeper.
void serve_encrypted(zmq::socket_t& s, const key_pair& own);
// Makes `s` one that connects to who has `server_key`.
void connect_encrypted(zmq::socket_t& s, const key_pair& own, const std::string& server_key);

class doorkeeper {
public:
  // Before any socket of the context is bound.
  explicit doorkeeper(zmq::context_t& context);
  void* handle() { return socket_.handle(); }
  int fd() { return socket_.get(zmq::sockopt::fd); } // readable when there may be something new
  // Answers what has been asked; a key is 64 hex digits, or empty: none. Whoever comes in is known
  // by it (message_t::gets("User-Id")).
  void judge(const std::function<bool(const std::string& public_key)>& may_come);
  void close() { socket_.close(); }

private:
  zmq::socket_t socket_;
};

} // namespace baton::cluster
