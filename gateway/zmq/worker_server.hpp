// The server for worker processes: a ROUTER socket in the run directory, on its own thread
// (docs/reference/protocol.md). It tracks connected workers, checks their messages, and sees the
// end of a process at once by its pidfd. The pools decide on requests. ZeroMQ types stay out of
// this header.
//
//   (unknown) --hello of a configured process--> connected --process ended, message out of order,
//                                                    |        unreadable--> (unknown), worker_lost
//                                                    +--silent--> connected, worker_silent
#pragma once

#include "gateway/workers/worker_pool.hpp"
#include "schema/result.hpp"

#include <map>
#include <memory>
#include <string>

namespace baton::gateway {

class worker_server {
public:
  // The pool of each worker, by the worker's process id.
  using pools_by_process = std::map<process_id, worker_pool_actor>;

  // Binds `endpoint`, ipc:// in a directory that only the operator can access: any process that can
  // connect there may act as a worker. Errors: address_in_use, io_failed.
  static result<std::unique_ptr<worker_server>> bind(const std::string& endpoint,
                                                     std::shared_ptr<gateway_state> facts);
  ~worker_server(); // stops

  // Call it once.
  void start(pools_by_process pools);
  // Replaces the pools, from any thread. Workers that are connected already keep their pool.
  void change(pools_by_process pools);
  // Sends to this incarnation of a worker, from any thread; dropped if it is not connected.
  void send(worker_incarnation to, message m);
  // Ends the thread. Idempotent.
  void stop();

  struct wall; // hides the library's types
  explicit worker_server(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
