// Sends traces to a collector: OTLP over HTTP, JSON
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp), from its own thread. No request waits for
// it: a collector that is down, slow or wrong costs only spans, which are counted. Beast types stay
// out of this header.
#pragma once

#include "gateway/state/gateway_state.hpp"
#include "schema/result.hpp"

#include <memory>

namespace baton::gateway {

class span_exporter {
public:
  // Starts to send the tracer's spans to config().otlp_endpoint, whether a collector listens there
  // or not. Requires: facts->tracer(). Errors: as parse_otlp_endpoint.
  static result<std::unique_ptr<span_exporter>> start(std::shared_ptr<gateway_state> facts);
  ~span_exporter(); // stops

  // Sends the remaining spans, including those of open requests, for at most drain_patience; then
  // drops the rest. Returns when the thread has ended. Idempotent.
  void stop();

  struct wall; // holds the types of Beast
  explicit span_exporter(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
