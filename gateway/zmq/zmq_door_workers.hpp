// The door for worker processes: a ROUTER socket in the run directory, on a thread of its own
// (docs/protocol.md, "The worker door"). Knows who is greeted, judges what they say, and sees at
// once when a process ends, by its pidfd; what they are asked is the pools' matter. ZeroMQ stays
// behind the wall.
//
//   (stranger) --hello of a place that is ours--> greeted --process ended, a message out of order,
//                                                    |      unreadable--> (stranger), worker_lost
//                                                    +--silent--> greeted, worker_silent
#pragma once

#include "gateway/workers/worker_pool.hpp"
#include "schema/result.hpp"

#include <map>
#include <memory>
#include <string>

namespace baton::gateway {

class worker_door {
public:
  // Whom the worker at a place serves.
  using pools_by_place = std::map<node_id, worker_pool_actor>;

  // Binds `endpoint`, ipc:// in a directory that is the operator's alone: whoever can connect there
  // may be a worker. Errors: address_in_use, io_failed.
  static result<std::unique_ptr<worker_door>> bind(const std::string& endpoint,
                                                   std::shared_ptr<board> facts);
  ~worker_door(); // stops

  // Once.
  void start(pools_by_place pools);
  // Other places from now on, from any thread. Workers that are greeted already stay with the pool
  // that they have.
  void change(pools_by_place pools);
  // To a worker of this life, from any thread; dropped if it is not greeted any more.
  void say(worker_life to, message m);
  // Ends the thread. Idempotent.
  void stop();

  struct wall; // all that the library's types are in
  explicit worker_door(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
