// The gateway's shared state: model cards, load and phase of each pipeline. Each pipeline client
// writes its own part; all server threads read it without asking an actor.
#pragma once

#include "gateway/auth/authenticator.hpp"
#include "gateway/base/inflight_counts.hpp"
#include "gateway/base/snapshot.hpp"
#include "gateway/config/config.hpp"
#include "gateway/metrics/metric_registry.hpp"
#include "gateway/metrics/metrics.hpp"
#include "gateway/metrics/torchserve_metrics.hpp"
#include "gateway/metrics/worker_load.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace baton::gateway {

class access_log;
class crash_record;
class tracer;
struct worker_models;   // worker_pool.hpp
struct repository_link; // repository_client.hpp

// A gateway serves with what it knows after this time.
constexpr std::chrono::milliseconds heads_patience{2'000};
constexpr std::chrono::milliseconds heads_look_interval{5};

class gateway_state {
public:
  explicit gateway_state(gateway_config config);

  const gateway_config& config() const noexcept { return config_; }
  gateway::metrics& metrics() noexcept { return metrics_; }
  const gateway::metrics& metrics() const noexcept { return metrics_; }
  torchserve_metrics& torchserve() noexcept { return torchserve_; }
  // Counted by the handlers of worker models. Never null.
  const std::shared_ptr<metric_registry>& handler_metrics() const noexcept {
    return handler_metrics_;
  }
  gateway::authenticator& authenticator() noexcept { return authenticator_; }

  // Null: tracing is off.
  const std::shared_ptr<gateway::tracer>& tracer() const noexcept { return tracer_; }

  // Null: there is no access log. Set once, before the servers start.
  const std::shared_ptr<gateway::access_log>& access_log() const noexcept { return access_log_; }
  void set_access_log(std::shared_ptr<gateway::access_log> to) { access_log_ = std::move(to); }

  // Null: crashes are not counted per client. Set once, before the servers start.
  crash_record* crashes() const noexcept { return crashes_.get(); }
  void set_crashes(std::shared_ptr<crash_record> to) { crashes_ = std::move(to); }

  std::shared_ptr<const snapshot> look() const;
  // False while this gateway may still learn who serves: it is new, or the root says that a head is
  // ready and its model card has not arrived. It would refuse requests that the cluster serves. The
  // servers leave connections and messages in their queues until then, `heads_patience` at most.
  bool is_informed() const noexcept;
  // Waits until is_informed(). For the thread of a server, before it takes a message.
  void wait_informed() const;
  // Copies, changes and publishes. Called by the pipeline clients, or their substitute without an
  // LLM.
  void change(const std::function<void(snapshot&)>& edit);
  // Takes the root's status of the whole cluster.
  void take(const cluster_status& now);
  void begin_drain();

  // Counts one more open request. False: requests_max are open.
  bool enter() noexcept;
  void leave() noexcept;
  std::size_t requests_open() const noexcept { return requests_open_; }

  inflight_counts& inflight() noexcept { return inflight_; } // a handle: copies share the counts

  std::uint64_t next_number() noexcept { return ++last_number_; }

  // The models that workers serve now, beside the pipelines; null: there are none.
  std::shared_ptr<const worker_models> workers() const;
  std::vector<worker_view> worker_views() const;
  // The state of all of them, including those not served now. Never null.
  std::shared_ptr<const served_models> models() const;
  void set_workers(std::shared_ptr<const worker_models> all, std::vector<worker_view> views,
                   served_models standing = {});

  // Loads and unloads models of the repository; null: there is none. Set once, before the servers
  // start.
  const std::shared_ptr<const repository_link>& repository() const noexcept { return repository_; }
  void set_repository(std::shared_ptr<const repository_link> to) { repository_ = std::move(to); }

private:
  using clock = std::chrono::steady_clock;
  void note_heads(const snapshot& now);
  std::atomic<clock::duration> uninformed_since_; // zero: it knows all heads
  const gateway_config config_;
  gateway::metrics metrics_;
  torchserve_metrics torchserve_;
  const std::shared_ptr<metric_registry> handler_metrics_ = std::make_shared<metric_registry>();
  gateway::authenticator authenticator_;
  const std::shared_ptr<gateway::tracer> tracer_;
  std::shared_ptr<gateway::access_log> access_log_;
  std::shared_ptr<crash_record> crashes_;
  inflight_counts inflight_;
  std::shared_ptr<const repository_link> repository_;
  mutable std::mutex workers_mutex_;
  std::shared_ptr<const worker_models> workers_;
  std::vector<worker_view> worker_views_;
  std::shared_ptr<const served_models> models_ = std::make_shared<const served_models>();
  std::mutex change_mutex_; // serializes changes; readers do not wait for it
  mutable std::mutex mutex_;
  std::shared_ptr<const snapshot> now_;
  std::atomic<std::size_t> requests_open_{0};
  std::atomic<std::uint64_t> last_number_;
};

} // namespace baton::gateway
