#include "gateway/state/gateway_state.hpp"

#include "gateway/tracing/tracer.hpp"
#include "schema/ensure.hpp"

#include <thread>
#include <utility>

namespace baton::gateway {
namespace {

// The incarnation is above these bits: request numbers of two incarnations must not collide at the
// head.
constexpr unsigned number_bits = 40;

std::optional<key_ring> ring_of(const gateway_config& config) {
  return config.keys ? std::optional<key_ring>(*config.keys) : std::nullopt;
}

std::shared_ptr<tracer> tracer_of(const gateway_config& config) {
  if (config.otlp_endpoint.empty()) {
    return nullptr;
  }
  tracer_settings settings;
  settings.sampling_ratio = config.trace_sampling_ratio;
  return std::make_shared<tracer>(std::move(settings));
}

std::shared_ptr<const snapshot> nothing_known(const std::vector<pipeline_config>& pipelines) {
  ENSURE(pipelines.size() <= pipelines_max, "{} pipelines", pipelines.size());
  auto s = std::make_shared<snapshot>();
  s->pipelines.resize(pipelines.size());
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    s->pipelines[i].model = pipelines[i].model;
  }
  return s;
}

} // namespace

gateway_state::gateway_state(gateway_config config)
    : config_(std::move(config)),
      authenticator_(ring_of(config_), authenticator::instant::clock::now()),
      tracer_(tracer_of(config_)), now_(nothing_known(config_.pipelines)),
      last_number_(config_.incarnation.value << number_bits) {
  note_heads(*now_);
}

void gateway_state::note_heads(const snapshot& now) {
  if (knows_all_heads(now)) {
    uninformed_since_ = clock::duration::zero();
  } else if (uninformed_since_.load() == clock::duration::zero()) {
    uninformed_since_ = clock::now().time_since_epoch();
  }
}

bool gateway_state::is_informed() const noexcept {
  const auto since = uninformed_since_.load();
  return since == clock::duration::zero() ||
         clock::now().time_since_epoch() - since >= heads_patience;
}

void gateway_state::wait_informed() const {
  while (!is_informed()) {
    std::this_thread::sleep_for(heads_look_interval);
  }
}

std::shared_ptr<const snapshot> gateway_state::look() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void gateway_state::change(const std::function<void(snapshot&)>& edit) {
  const std::lock_guard change_lock(change_mutex_);
  auto next = std::make_shared<snapshot>(*look());
  edit(*next);
  note_heads(*next);
  const std::lock_guard lock(mutex_);
  now_ = std::move(next);
}

void gateway_state::take(const cluster_status& now) {
  metrics_.processes(now.nodes);
  change([&](snapshot& s) { s.cluster = now; });
}

void gateway_state::begin_drain() {
  change([](snapshot& s) { s.is_draining = true; });
}

std::shared_ptr<const worker_models> gateway_state::workers() const {
  const std::lock_guard lock(workers_mutex_);
  return workers_;
}

std::vector<worker_view> gateway_state::worker_views() const {
  const std::lock_guard lock(workers_mutex_);
  return worker_views_;
}

std::shared_ptr<const served_models> gateway_state::models() const {
  const std::lock_guard lock(workers_mutex_);
  return models_;
}

void gateway_state::set_workers(std::shared_ptr<const worker_models> all,
                                std::vector<worker_view> views, served_models standing) {
  auto next_models = std::make_shared<const served_models>(std::move(standing));
  const std::lock_guard lock(workers_mutex_);
  std::swap(workers_, all); // the old values are destroyed with the parameters, after the unlock
  std::swap(worker_views_, views);
  std::swap(models_, next_models);
}

bool gateway_state::enter() noexcept {
  auto open = requests_open_.load();
  do {
    if (open >= config_.requests_max) {
      return false;
    }
  } while (!requests_open_.compare_exchange_weak(open, open + 1));
  return true;
}

void gateway_state::leave() noexcept {
  requests_open_.fetch_sub(1);
}

} // namespace baton::gateway
