// Serve a model of your own beside a Baton cluster's LLMs, in C++
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

// Where this worker stands: [[workers]] of nodes.toml.
struct worker_place {
  std::string model;
  std::string version;
  std::string name; // of this process
  std::uint32_t batch_size = 1;
  std::string door; // the gateway's ZeroMQ door, for a client of other models; empty: there is none
  std::optional<std::uint32_t> gpu_id{}; // where it computes, as CUDA counts; nothing: on the CPU

  // A client for other models of the cluster, language models among them, which may be kept and
  // used from any thread. Where the gateway asks for keys, the one in the environment,
  // BATON_API_KEY, is told unless `options` has one. Whoever asks for its own model waits for
  // another process of it: with count = 1 that is nobody, and the call ends by its deadline.
  // Errors: bad_config (there is no door), those of client::connect.
  result<client> connect(client_options options = {}) const;
};

// One request of a batch, and the way of its answer. Pieces go out at once and wait for room; what
// is said behind the last one is dropped. Used on the handler's thread alone.
class work {
public:
  struct wiring {
    std::function<void(inferred)> say;
    std::function<bool()> is_cancelled;
  };
  work(infer asked, wiring wires) : asked_(std::move(asked)), wires_(std::move(wires)) {}

  const infer& asked() const noexcept { return asked_; }
  // Nobody waits for the answer any more; it still has its last piece.
  bool is_cancelled() const { return wires_.is_cancelled(); }
  void piece(inferred p) { say(std::move(p), /*is_last=*/false); }
  void finish(inferred last = {}) { say(std::move(last), /*is_last=*/true); }
  void fail(error why);
  bool has_ended() const noexcept { return has_ended_; }

private:
  void say(inferred p, bool is_last);

  infer asked_;
  wiring wires_;
  std::uint32_t next_index_ = 0;
  bool has_ended_ = false;
};

class worker_handler {
public:
  virtual ~worker_handler() = default;
  // Loads the model. An error ends the process for good; one that may pass is thrown.
  virtual result<void> initialize(const worker_place&) { return {}; }
  // Answers all of the batch. What it throws, and what it leaves unanswered, costs the requests
  // that are open then (handler_failed).
  virtual void handle(std::span<work> batch) = 0;
  // Before an orderly end.
  virtual void finalize() {}
};

// The whole life of a worker process that `cluster up` has started: the exit status of main. Takes
// SIGTERM; call it before other threads are started.
int serve_worker(worker_handler& handler);

} // namespace baton
