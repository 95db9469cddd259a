#include "gateway/workers/worker_pool.hpp"

#include "actors/actor_faults.hpp"
#include "gateway/workers/answer_order.hpp"
#include "gateway/workers/open_infers.hpp"
#include "gateway/workers/worker_parameters.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace baton::gateway {
namespace {

using instant = schedule::worker_queue::instant;

// For refused clients: batches are answered within seconds.
constexpr std::chrono::milliseconds retry_after{1000};
// The regular tick comes within this time.
constexpr std::chrono::milliseconds tick_horizon{200};
// A server that does not know yet that the pool drains may send requests for this long.
constexpr std::chrono::milliseconds straggler_max{250};

struct pool_state {
  static inline const char* name = "worker_pool";

  worker_pool_config config;
  schedule::worker_queue queue{schedule::worker_limits{}};
  worker_pool_actor::stateful_pointer<pool_state> self = nullptr;
  std::optional<open_infers> open;
  std::optional<worker_reports> reports;
  pushed_streams pushed;
  answer_order order;              // of open requests, if it is preserved
  metric_registry::source counted; // the handlers' metrics
  std::optional<instant> armed_for;
  std::optional<instant> draining_since, drain_until;
  bool is_drained = false; // and reported

  instant now() { return self->clock().now(); }
  metrics& counts() { return config.facts->metrics(); }

  void start(open_infer& m) {
    const auto number = m.out->number();
    schedule::worker_queue::new_request a{.request = number, .bytes = bytes_of(m.request)};
    a.goes_alone = m.goes_alone;
    if (m.request.deadline.count() > 0)
      a.deadline = now() + m.request.deadline;
    auto ok = check_open();
    if (ok)
      ok = read_queue_parameters(m.request, config.limits, a);
    open->enter(m, now());
    if (ok)
      ok = queue.enter(a, now());
    if (!ok)
      refuse(number, ok.error());
    else if (config.limits.preserve_ordering)
      order.enter(number);
    apply_orders();
  }

  result<void> check_open() const {
    if (is_drained)
      return fail(errc::not_ready, "the model '{}' was unloaded", config.model);
    if (!config.load->has_workers)
      return fail(errc::overloaded, "the model '{}' has been scaled to no workers", config.model);
    return {};
  }

  void close(const close_request& m) {
    const auto* entry = open->find(m.request);
    if (entry == nullptr)
      return; // it ended while the client disconnected
    if (entry->trace)
      entry->trace->data.left(m.why, now());
    open->count_end(*entry, /*is_well=*/false, /*is_cancelled=*/true, now());
    queue.cancel(m.request, now());
    erase(m.request);
    apply_orders();
  }

  void erase(std::uint64_t request) {
    order.leave(request);
    open->erase(request, now());
  }

  // False: the stream was cut, its entry is gone.
  bool deliver(std::uint64_t request, stream_event e) {
    const auto* entry = open->find(request);
    if (entry == nullptr)
      return false;
    const auto out = entry->out;
    const auto trace = entry->trace;
    if (trace)
      trace->data.take(e, now());
    const auto* piece = std::get_if<inferred>(&e);
    const bool is_well = piece != nullptr;
    const bool is_first = piece && piece->index == 0;
    // A refused request never began, so its refusal is not an end.
    const bool is_end = std::holds_alternative<failed>(e) || (piece && piece->is_last);
    const bool fits = out->push(std::move(e));
    pushed.add(out);
    if (is_first)
      counts().worker_answered(config.model, config.version,
                               std::chrono::duration<double>(now() - entry->arrived).count());
    if (is_end || !fits)
      open->count_end(*entry, is_well && fits, /*is_cancelled=*/false, now());
    if (!fits) {
      if (trace)
        trace->data.cut_off(errc::slow_reader, now());
      counts().dropped("slow_reader");
      queue.cancel(request, now());
      erase(request);
    }
    return fits;
  }

  void refuse(std::uint64_t request, error why) {
    counts().refused("worker", why.code);
    rejected no;
    no.request = request;
    no.reason = std::move(why);
    if (row_of(no.reason.code).retryable)
      no.retry_after = retry_after;
    no.queue_position = static_cast<std::uint32_t>(queue.waiting());
    if (deliver(request, std::move(no)))
      erase(request);
  }

  void take(worker_replied& m) {
    auto& p = m.piece;
    const auto request = p.request;
    const bool is_last = p.is_last;
    if (!queue.take_piece(m.worker, request, p.index, is_last, now())) {
      counts().dropped("inferred");
      return apply_orders();
    }
    if (auto ok = check_limits(p); !ok && !p.failure) {
      end_answer(request,
                 fail(errc::handler_failed, "the handler's answer: {}", ok.error().message));
      return apply_orders();
    }
    auto event = p.failure ? stream_event(failed{std::move(*p.failure)}) : std::move(p);
    if (!order.is_known(request) || order.can_deliver(request))
      deliver_piece(request, std::move(event), is_last);
    else if (!order.hold({request, std::move(event), is_last}))
      end_answer(request, fail(errc::overloaded,
                               "more than {} bytes of answers wait for their turn "
                               "(preserve_ordering)",
                               held_answer_bytes_max));
    apply_orders();
  }

  void deliver_piece(std::uint64_t request, stream_event e, bool is_last) {
    if (deliver(request, std::move(e)) && is_last)
      erase(request);
  }

  // The worker still completes the answer, which is discarded.
  void end_answer(std::uint64_t request, error why) {
    queue.cancel(request, now());
    deliver_piece(request, failed{std::move(why)}, /*is_last=*/true);
  }

  // Delivers the held pieces whose request is now the first.
  void deliver_held() {
    while (auto held = order.next())
      deliver_piece(held->request, std::move(held->event), held->is_last);
  }

  void apply_orders() {
    deliver_held();
    for (auto orders = queue.take_orders(); !orders.empty(); orders = queue.take_orders()) {
      for (const auto& one : orders)
        std::visit([this](const auto& o) { carry_out(o); }, one);
      deliver_held();
    }
    config.load->workers = queue.workers();
    config.load->waiting = queue.waiting();
    config.load->running = queue.running();
    end_drain();
    arm();
    pushed.wake_readers();
  }

  void carry_out(const schedule::start_batch& o) {
    counts().worker_executed(config.model, config.version);
    config.send(o.worker, open->begin_batch(o.batch, o.requests, now()));
  }

  void carry_out(const schedule::end_request& o) {
    const auto code = o.why.code;
    if (code == errc::not_ready || code == errc::queue_timeout)
      return refuse(o.request, o.why);
    if (deliver(o.request, failed{o.why}))
      erase(o.request);
  }

  void carry_out(const schedule::abandon_request& o) {
    config.send(o.worker, cancel_infer{o.request});
  }

  void carry_out(const schedule::fence_worker& o) { reports->condemn(o.worker, o.why); }

  void carry_out(const schedule::release_worker& o) { config.send(o.worker, drain{}); }

  void greeted(worker_incarnation w, std::uint64_t load_micros) {
    if (load_micros > 0)
      config.load->tally.loaded(reports->name_of(w.process),
                                static_cast<double>(load_micros) / 1e6);
    if (reports->repeat_if_condemned(w))
      return;
    queue.worker_up(w, now());
    reports->ready(w);
    apply_orders();
  }

  void lost(const worker_lost& m) {
    queue.worker_gone(m.worker, m.how, now());
    if (m.has_ended)
      reports->ended(m.worker);
    else
      reports->condemn(m.worker, m.how);
    apply_orders();
  }

  void silent(worker_incarnation w) {
    if (queue.worker_silent(w, now()))
      reports->condemn(w, "it stopped responding");
    apply_orders();
  }

  // The ticker comes in any case; a batch or a request's timeout may be due earlier.
  void arm() {
    const auto due = queue.due();
    if (!due || *due >= now() + tick_horizon || (armed_for && *armed_for <= *due))
      return;
    armed_for = due;
    const auto wait = std::max(std::chrono::nanoseconds(0),
                               std::chrono::duration_cast<std::chrono::nanoseconds>(*due - now()));
    self->delayed_send(self, wait, actors::tick{});
  }

  void tick() {
    if (armed_for && now() >= *armed_for)
      armed_for.reset();
    queue.tick(now());
    end_late_drain();
    apply_orders();
  }

  // A repeated drain may shorten the grace period, never extend it.
  void begin_drain(std::chrono::milliseconds grace) {
    draining_since = draining_since.value_or(now());
    drain_until = std::min(drain_until.value_or(instant::max()), now() + grace);
    end_late_drain();
    apply_orders();
  }

  void end_late_drain() {
    if (!drain_until || now() < *drain_until)
      return;
    for (const auto request : open->numbers())
      end_answer(request, fail(errc::not_ready, "the model '{}' was unloaded", config.model));
  }

  void end_drain() {
    if (draining_since && now() - *draining_since >= straggler_max && open->is_empty() &&
        queue.waiting() + queue.running() == 0 && !std::exchange(is_drained, true))
      config.drained();
  }
};

worker_pool_actor::behavior_type pool(worker_pool_actor::stateful_pointer<pool_state> self,
                                      worker_pool_config config) {
  actors::install_fault_handlers(self);
  auto& state = self->state;
  state.queue = schedule::worker_queue(config.limits);
  state.config = std::move(config);
  state.open.emplace(state.config);
  state.reports.emplace(state.config.report, std::move(state.config.processes));
  state.counted = {state.config.facts->handler_metrics(), state.config.model, state.config.version};
  state.self = self;
  return {
      [self](open_infer& m) { self->state.start(m); },
      [self](const close_request& m) { self->state.close(m); },
      [self](const worker_greeted& m) { self->state.greeted(m.worker, m.load_micros); },
      [self](worker_replied& m) { self->state.take(m); },
      [self](const worker_counted& m) {
        for (const auto& wrong : self->state.counted.take(m.all))
          spdlog::warn("{}", wrong);
      },
      [self](const worker_leaving& m) {
        self->state.queue.worker_leaves(m.worker);
        self->state.apply_orders();
      },
      [self](const worker_lost& m) { self->state.lost(m); },
      [self](const worker_silent& m) { self->state.silent(m.worker); },
      [self](worker_processes& m) { self->state.reports->set_processes(std::move(m.all)); },
      [self](const actors::peer_up& m) {
        if (m.peer.role == role::root)
          self->state.reports->repeat_all(self->state.queue.incarnations());
      },
      [self](const drain& m) { self->state.begin_drain(m.grace); },
      [self](const actors::tick&) { self->state.tick(); },
  };
}

} // namespace

const worker_model* worker_models::find(std::string_view name, std::string_view version) const {
  const auto known = by_name.find(name);
  if (known == by_name.end())
    return nullptr;
  const auto& all = known->second;
  const auto at = std::find_if(all.begin(), all.end(), [&](const worker_model& m) {
    return version.empty() || m.version == version;
  });
  return at == all.end() ? nullptr : &*at;
}

worker_pool_actor spawn_worker_pool(caf::actor_system& system, worker_pool_config config) {
  return system.spawn(pool, std::move(config));
}

} // namespace baton::gateway
