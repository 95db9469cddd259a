// TorchServe's metrics of one gateway process: its names, labels and units
// (ts/configs/metrics.yaml) in Prometheus' text. What is counted here alone: the predictions of
// TorchServe's doors; answers by status are those of all HTTP doors. Any thread.
#pragma once

#include "gateway/metrics/host_load.hpp"
#include "gateway/metrics/metric_book.hpp"
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
  // A model that there is: its counters begin at 0.
  void know(const std::string& model);
  // A prediction of a model that there is. `has_version`: it was asked for one, which is known.
  void asked(const std::string& model, bool has_version);
  // It has ended well: the wait for its ticket, and from its arrival to its end.
  void predicted(const std::string& model, bool has_version, duration queue, duration whole);
  // Of these names alone, unless there are none; behind its own those that handlers count.
  std::string text(const std::vector<std::string>& names, const metric_book& of_handlers,
                   const std::vector<worker_view>& workers = {});

private:
  struct of_model {
    std::uint64_t requests = 0;
    double latency_micros = 0;
    double queue_micros = 0;
  };
  using key = std::pair<std::string, std::string_view>; // model, version as TorchServe labels it

  const std::string host_;
  std::mutex mutex_;
  std::uint64_t by_class_[3] = {}; // 2xx, 4xx, 5xx
  std::map<key, of_model> models_;
  std::map<std::string, double> last_millis_; // of a model's last prediction, without its wait
  double last_queue_millis_ = -1;             // none yet
  host_reader system_;
};

} // namespace baton::gateway
