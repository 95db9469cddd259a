// TorchServe's metrics of one gateway process: its names, labels and units
// (ts/configs/metrics.yaml) in Prometheus' text. Predictions are counted for TorchServe's API only,
// responses by status for all HTTP servers. Any thread.
#pragma once

#include "gateway/metrics/host_load.hpp"
#include "gateway/metrics/metric_registry.hpp"
#include "gateway/metrics/worker_load.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::gateway {

class torchserve_metrics {
public:
  using duration = std::chrono::steady_clock::duration;

  torchserve_metrics() : host_(host_name()) {}

  void answered(int status);
  // The counters of an existing model begin at 0.
  void know(const std::string& model);
  // A prediction of an existing model. `has_version`: the request names a version, which exists.
  void asked(const std::string& model, bool has_version);
  // A prediction has ended well. `queue`: until its ticket; `whole`: from its arrival to its end.
  void predicted(const std::string& model, bool has_version, duration queue, duration whole);
  // Metrics of these names only, or all if there are none. The handlers' metrics follow the
  // server's own.
  std::string text(const std::vector<std::string>& names, const metric_registry& of_handlers,
                   const std::vector<worker_view>& workers = {});

private:
  struct of_model {
    std::uint64_t requests = 0;
    double latency_micros = 0;
    double queue_micros = 0;
  };
  using key = std::pair<std::string, std::string_view>; // model, TorchServe's version label

  const std::string host_;
  std::mutex mutex_;
  std::uint64_t by_class_[3] = {}; // 2xx, 4xx, 5xx
  std::map<key, of_model> models_;
  std::map<std::string, double> last_millis_; // of the last prediction, without its queue time
  double last_queue_millis_ = -1;             // below 0: none yet
  host_reader system_;
};

} // namespace baton::gateway
