// Counters and latencies of one gateway process, and the text of /metrics. Own names (`baton_*`)
// are the source; mirrors under vLLM's, TGI's and Triton's names let their dashboards and scalers
// work unchanged. Any thread may call; prometheus-cpp stays behind the wall.
#pragma once

#include "gateway/metrics/worker_load.hpp"
#include "schema/error.hpp"
#include "schema/messages.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct snapshot;
struct key_usage;

// Of all its choices together.
struct ended_request {
  double seconds = 0; // since it was opened
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  bool is_well = true; // it neither failed nor was cancelled
  bool is_cancelled = false;
  double queue_seconds = 0; // of `seconds`: until its ticket, and behind it until it was in a step
  double prepare_seconds = 0; // of `seconds`: text to ids, and the checks of them
  std::optional<double> first_token_seconds{}, last_token_seconds{}; // of `seconds`; none: no token
  std::uint64_t longest_output_tokens = 0;                           // of its choices
  std::uint32_t choices = 0;                 // that were asked for; 0: not known here
  std::optional<std::uint64_t> tokens_max{}; // of a choice; none: not known here, or no text
};

// Of a model's requests that have ended, for Triton's statistics.
struct model_tally {
  std::uint64_t succeeded = 0, failed = 0;
  double success_seconds = 0, failure_seconds = 0; // together
  double queue_seconds = 0, prepare_seconds = 0;   // of those that succeeded
  std::int64_t last_ms = 0;                        // since 1970; 0: none has succeeded yet
  std::uint64_t executions = 0;                    // batches of a worker model
};

// Of HTTP, or "other": a client may say anything.
std::string_view known_method(std::string_view said) noexcept;

class metrics {
public:
  metrics();
  ~metrics();
  metrics(const metrics&) = delete;
  metrics& operator=(const metrics&) = delete;

  // `route` is a name of the route table, never a client's text: labels must stay few. `method` is
  // known_method's.
  void http_request(std::string_view route, std::string_view method, int code, double seconds);
  void connection_opened();
  void connection_closed();
  // `door` is http, websocket, zmq or grpc.
  void refused(std::string_view door, errc reason);
  void request_opened(std::string_view door);
  void client_gone(std::string_view door);
  // `why` is client (it came back), link (to the head) or head (a new life of it).
  void resumed(std::string_view why);

  // Of one pipeline, the label `engine`, and the model that it serves.
  void first_token(std::uint32_t pipeline, const std::string& model, double seconds);
  // `count` tokens came `seconds` after those before them.
  void next_tokens(std::uint32_t pipeline, const std::string& model, std::uint32_t count,
                   double seconds);
  void choice_ended(std::uint32_t pipeline, const std::string& model, finish how,
                    std::uint32_t output_tokens);
  void request_ended(std::uint32_t pipeline, const std::string& model, const ended_request& r);
  // The same of a worker model, whose seconds until its first piece are those of a first token.
  void worker_answered(const std::string& model, const std::string& version, double seconds);
  void worker_ended(const std::string& model, const std::string& version, const ended_request& r);
  void worker_executed(const std::string& model, const std::string& version); // a batch
  model_tally tally_of(const std::string& model, const std::string& version = "1") const;
  // A stream of this one goes on at another.
  void moved(std::uint32_t pipeline, const std::string& model);
  // `why` is prefix, load, request_id, resume or moved.
  void routed(std::uint32_t pipeline, const std::string& model, std::string_view why);
  // A message that changes nothing: duplicate chunk, answer to a request that is gone, bad frame.
  void dropped(std::string_view what);
  // The processes as the root tells of them: how often they have begun again.
  void processes(const std::vector<status>& all);
  // Of traces: sent to the collector and taken; lost, because it does not take them in time.
  void spans(std::uint64_t exported, std::uint64_t dropped);

  // Prometheus text format 0.0.4, with the gauges of `now` and what each API key has used.
  std::string text(const snapshot& now, std::size_t requests_open,
                   const std::vector<key_usage>& keys,
                   const std::vector<worker_view>& workers = {}) const;

private:
  struct registry;
  struct model_series;
  std::unique_ptr<registry> registry_;
};

} // namespace baton::gateway
