// Serve your own model beside a Baton cluster's LLMs, in C++
// (docs/apis/workers/libraries-and-other-languages.md):
//
//   class upper : public baton::worker_handler {
//     void handle(std::span<baton::work> batch) override {
//       for (auto& one : batch)
//         one.finish({.body = shouted(one.asked().body)});
//     }
//   };
//   int main() { upper u; return baton::serve_worker(u); }
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"
#include "sdk/cpp/baton/client.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton {

// This worker's place in the cluster: [[workers]] of nodes.toml.
struct worker_place {
  std::string model;
  std::string version;
  std::string name; // of this process
  std::uint32_t batch_size = 1;
  std::string door; // the gateway's ZeroMQ API, for clients of other models; empty: none
  std::optional<std::uint32_t> gpu_id{}; // CUDA device index; nothing: the CPU

  // A client for other models of the cluster, including language models. It may be kept and used
  // from any thread. If the gateway requires keys, it sends BATON_API_KEY unless `options` has a
  // key. A worker that calls its own model waits for another process of that model; with count = 1
  // there is none, and the call ends by its deadline. Errors: bad_config (no ZeroMQ API), those of
  // client::connect.
  result<client> connect(client_options options = {}) const;
};

// One request of a batch, and the way to answer it. Pieces are sent at once and wait for credit;
// pieces after the last one are dropped. Used on the handler's thread alone.
class work {
public:
  struct wiring {
    std::function<void(inferred)> send;
    std::function<bool()> is_cancelled;
  };
  work(infer asked, wiring wires) : asked_(std::move(asked)), wires_(std::move(wires)) {}

  const infer& asked() const noexcept { return asked_; }
  // The client no longer waits for the answer; it still needs its last piece.
  bool is_cancelled() const { return wires_.is_cancelled(); }
  void piece(inferred p) { send(std::move(p), /*is_last=*/false); }
  void finish(inferred last = {}) { send(std::move(last), /*is_last=*/true); }
  void fail(error why);
  bool has_ended() const noexcept { return has_ended_; }

private:
  void send(inferred p, bool is_last);

  infer asked_;
  wiring wires_;
  std::uint32_t next_index_ = 0;
  bool has_ended_ = false;
};

class worker_handler {
public:
  virtual ~worker_handler() = default;
  // Loads the model. A returned error ends the process permanently; throw temporary errors.
  virtual result<void> initialize(const worker_place&) { return {}; }
  // Answers the whole batch. An exception fails the requests that are still open, and so does a
  // missing answer (handler_failed).
  virtual void handle(std::span<work> batch) = 0;
  // Called before an orderly shutdown.
  virtual void finalize() {}
};

// Runs a worker process that `cluster up` has started; returns the exit status of main. Handles
// SIGTERM; call it before starting other threads.
int serve_worker(worker_handler& handler);

} // namespace baton
