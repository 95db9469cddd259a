// The HTTP and WebSocket listener of one gateway: accepts, bounds the number of connections, runs
// the io threads. Beast and Asio stay behind the wall.
#pragma once

#include "gateway/reception.hpp"

#include <memory>
#include <string>

namespace baton::gateway {

class http_server {
public:
  // Binds config().http and serves at once. Errors: bad_config (not an address), address_in_use,
  // io_failed; each names the address.
  static result<std::unique_ptr<http_server>> start(const desk_actor& desk,
                                                    std::shared_ptr<board> facts);
  ~http_server(); // stops

  std::string url() const; // with the port that was taken
  // No new connections; open ones are cut, their tickets cancelled. Returns when all have ended.
  void stop();

  struct wall; // all that the library's types are in
  explicit http_server(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
