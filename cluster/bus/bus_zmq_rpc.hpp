// An encrypted request-reply server for processes outside the cluster. They know our key; their own
// key identifies them across requests. Asking here grants no access.
#pragma once

#include "cluster/keys/curve_key.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace baton::cluster {

inline constexpr std::size_t rpc_request_bytes_max = 64 << 10;
inline constexpr std::size_t rpc_answer_bytes_max = 4 << 20; // a configuration of 1,000 nodes

class rpc_server {
public:
  // Called from the server's own thread, one at a time.
  using handler =
      std::function<std::string(std::string_view request, const std::string& public_key)>;

  // Errors: bad_config, address_in_use, io_failed.
  static result<std::unique_ptr<rpc_server>> open(const std::string& endpoint, const key_pair& own,
                                                  handler answer);
  ~rpc_server();

private:
  struct state;
  explicit rpc_server(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

// A connection to an RPC server, for one request at a time.
class rpc_client {
public:
  // `server`: its endpoint, with its key. Errors: bad_config.
  static result<rpc_client> open(const std::string& server, const key_pair& own);
  rpc_client(rpc_client&&) noexcept;
  rpc_client& operator=(rpc_client&&) = delete;
  ~rpc_client();

  // After a timeout the client cannot be used again. Errors: bad_config, link_down (no answer in
  // time; a wrong key and an absent server look the same).
  result<std::string> call(const std::string& request, std::chrono::milliseconds patience);

private:
  struct state;
  explicit rpc_client(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

// One request. Errors: as rpc_client.
result<std::string> rpc_call(const std::string& server, const key_pair& own,
                             const std::string& request, std::chrono::milliseconds patience);

} // namespace baton::cluster
