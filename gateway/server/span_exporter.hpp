// Sends what has been traced to a collector: OTLP over HTTP, JSON
// (https://opentelemetry.io/docs/specs/otlp/#otlphttp), from a thread of its own. Nobody waits for
// it: a collector that is away, slow or wrong costs spans, which are counted, and nothing else.
// Beast stays behind the wall.
#pragma once

#include "gateway/state/board.hpp"
#include "schema/result.hpp"

#include <memory>

namespace baton::gateway {

class span_exporter {
public:
  // Begins to send what the board's tracer has to config().otlp_endpoint, whether anybody listens
  // there or not. Requires: facts->tracer(). Errors: as parse_otlp_endpoint.
  static result<std::unique_ptr<span_exporter>> start(std::shared_ptr<board> facts);
  ~span_exporter(); // stops

  // Sends what there is, and what requests that are open still leave, for as long as drain_patience
  // says; then the rest is dropped. Returns when the thread has ended. Idempotent.
  void stop();

  struct wall; // all that the library's types are in
  explicit span_exporter(std::unique_ptr<wall> w);

private:
  std::unique_ptr<wall> wall_;
};

} // namespace baton::gateway
