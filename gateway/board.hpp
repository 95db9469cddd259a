// What the desk knows of the cluster, for the doors to read without asking an actor: model cards,
// load, phase. Written by the desk alone; read by every door thread.
#pragma once

#include "gateway/config.hpp"
#include "gateway/gate.hpp"
#include "gateway/metrics.hpp"
#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

struct snapshot {
  std::vector<model_card> cards; // one per model, in order of arrival
  std::optional<load_report> load;
  std::optional<cluster_status> cluster;
  std::optional<status> head;
  bool is_draining = false;
  bool is_head_lost = false;
  std::string head_lost_why;
};

struct standing {
  baton::phase phase = phase::starting;
  std::string reason; // empty when ready
};

// The truth for /health: ready only if a request that came now would be served.
standing standing_of(const snapshot& s);
std::string_view name_of(phase p) noexcept; // "ready", "loading" ...
std::string_view name_of(role r) noexcept;  // "gateway", "shard" ...: also the roles of `cluster`

// The card that `model` (a name, an alias, or empty for the first) means.
// Errors: draining, not_ready, model_not_found (param "model").
result<model_card> find_model(const snapshot& s, const std::vector<std::string>& aliases,
                              std::string_view model);

class board {
public:
  explicit board(gateway_config config);

  const gateway_config& config() const noexcept { return config_; }
  gateway::metrics& metrics() noexcept { return metrics_; }
  gateway::gate& gate() noexcept { return gate_; }

  std::shared_ptr<const snapshot> look() const;
  // The desk only: copies, changes and publishes.
  void change(const std::function<void(snapshot&)>& edit);

  // One more open request, unless requests_max are open.
  bool enter() noexcept;
  void leave() noexcept;
  std::size_t requests_open() const noexcept { return requests_open_; }

  std::uint64_t next_number() noexcept { return ++last_number_; }

private:
  const gateway_config config_;
  gateway::metrics metrics_;
  gateway::gate gate_;
  mutable std::mutex mutex_;
  std::shared_ptr<const snapshot> now_;
  std::atomic<std::size_t> requests_open_{0};
  std::atomic<std::uint64_t> last_number_;
};

} // namespace baton::gateway
