// Counters and latencies of one gateway process, and the text of /metrics. Own names (`baton_*`)
// are the source. Mirrors under vLLM's, TGI's and Triton's names serve their dashboards and scalers
// unchanged. Any thread; prometheus-cpp is hidden behind metrics.cpp.
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

// Totals over all its choices.
struct ended_request {
  double seconds = 0; // since it was opened
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  bool is_well = true; // neither failed nor cancelled
  bool is_cancelled = false;
  double queue_seconds = 0; // of `seconds`: until its ticket, and from the ticket to its first step
  double prepare_seconds = 0; // of `seconds`: tokenization and checks
  std::optional<double> first_token_seconds{}, last_token_seconds{}; // empty: no token
  std::uint64_t longest_output_tokens = 0;                           // of one choice
  std::uint32_t choices = 0;                                         // requested; 0: unknown here
  std::optional<std::uint64_t> max_tokens{}; // per choice; empty: unknown here, or no text
};

// Totals of a model's ended requests, for Triton's statistics.
struct model_tally {
  std::uint64_t succeeded = 0, failed = 0;
  double success_seconds = 0, failure_seconds = 0; // totals
  double queue_seconds = 0, prepare_seconds = 0;   // of those that succeeded
  std::int64_t last_ms = 0;                        // since 1970; 0: none has succeeded yet
  std::uint64_t executions = 0;                    // batches of a worker model
};

// An HTTP method, or "other": a client may send any text.
std::string_view known_method(std::string_view text) noexcept;

class metrics {
public:
  metrics();
  ~metrics();
  metrics(const metrics&) = delete;
  metrics& operator=(const metrics&) = delete;

  // `route` is a name of the route table, never a client's text: labels must stay few. `method` is
  // a result of known_method.
  void http_request(std::string_view route, std::string_view method, int code, double seconds);
  void connection_opened();
  void connection_closed();
  // `protocol` is http, websocket, zmq or grpc: the label "door".
  void refused(std::string_view protocol, errc reason);
  void request_opened(std::string_view protocol);
  void client_gone(std::string_view protocol);
  // `why` is client (it came back), link (to the head), head (a new incarnation) or request_id.
  void resumed(std::string_view why);

  // For one pipeline, the label `engine`, and the model that it serves.
  void first_token(std::uint32_t pipeline, const std::string& model, double seconds);
  // `count` tokens came `seconds` after the previous ones.
  void next_tokens(std::uint32_t pipeline, const std::string& model, std::uint32_t count,
                   double seconds);
  void choice_ended(std::uint32_t pipeline, const std::string& model, finish how,
                    std::uint32_t output_tokens);
  void request_ended(std::uint32_t pipeline, const std::string& model, const ended_request& r);
  // The same for a worker model. The seconds until its first piece count as those of a first token.
  void worker_answered(const std::string& model, const std::string& version, double seconds);
  void worker_ended(const std::string& model, const std::string& version, const ended_request& r);
  void worker_executed(const std::string& model, const std::string& version); // a batch
  model_tally tally_of(const std::string& model, const std::string& version = "1") const;
  // A stream of this pipeline migrated to another one.
  void moved(std::uint32_t pipeline, const std::string& model);
  // `why` is prefix, load, request_id, resume or moved.
  void routed(std::uint32_t pipeline, const std::string& model, std::string_view why);
  // A message without effect: a duplicate chunk, an answer to a closed request, a bad frame.
  void dropped(std::string_view what);
  // The processes of the root's last report, with their restarts.
  void processes(const std::vector<status>& all);
  // Spans that the collector took, and spans lost because it did not take them in time.
  void spans(std::uint64_t exported, std::uint64_t dropped);

  // Prometheus text format 0.0.4, with the gauges of `now` and the usage of each API key.
  std::string text(const snapshot& now, std::size_t requests_open,
                   const std::vector<key_usage>& keys,
                   const std::vector<worker_view>& workers = {}) const;

private:
  struct registry;
  struct model_series;
  std::unique_ptr<registry> registry_;
};

} // namespace baton::gateway
