#include "actors/stage.hpp"

#include "actors/actor_faults.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace baton::actors {
namespace {

using pointer = stage_actor::stateful_pointer<stage_state>;

constexpr std::align_val_t activation_alignment{64}; // a cache line, and the widest vector load

// The engine's output lives until its next run; what travels owns its bytes.
payload copy_activations(std::span<const float> rows) {
  auto bytes = rows.size_bytes();
  std::shared_ptr<void> memory(
      ::operator new(std::max<std::size_t>(bytes, 1), activation_alignment),
      [](void* p) { ::operator delete(p, activation_alignment); });
  std::memcpy(memory.get(), rows.data(), bytes);
  const auto* data = static_cast<const std::byte*>(memory.get());
  return {std::move(memory), data, bytes};
}

bool is_last(const stage_state& s) {
  return s.config.stage + 1 == s.config.stages;
}

void announce(pointer self) {
  self->send(self->state.config.scheduler, self->state.config.announcement);
}

void open_if_linked(pointer self) {
  auto& s = self->state;
  if (s.is_open || !s.current.epoch)
    return;
  if (!is_last(s)) {
    const auto& next = s.current.stages[s.config.stage + 1];
    auto is_next = [&](const hello& h) {
      return h.node == next.node && h.epoch == next.node_epoch;
    };
    if (std::none_of(s.linked.begin(), s.linked.end(), is_next))
      return;
  }
  s.is_open = true;
  spdlog::info("stage {}: epoch {} is open", s.config.stage, s.current.epoch.value);
  self->send(s.config.scheduler, epoch_opened{s.current.epoch, s.config.stage});
}

void enter_epoch(pointer self, const open_epoch& m) {
  auto& s = self->state;
  if (m.epoch <= s.current.epoch || m.stage != s.config.stage ||
      m.stages.size() != s.config.stages) {
    spdlog::warn("stage {}: refused epoch {} for stage {} of {} (current epoch {})", s.config.stage,
                 m.epoch.value, m.stage, m.stages.size(), s.current.epoch.value);
    return;
  }
  s.current = m;
  s.is_open = false;
  if (!is_last(s))
    s.config.connect(s.current.stages[s.config.stage + 1]);
  open_if_linked(self);
}

// What was on the way to the next stage is lost: this epoch cannot go on. Announcing anew asks for
// another one.
void lose_peer(pointer self, const peer_down& m) {
  auto& s = self->state;
  std::erase_if(s.linked, [&](const hello& h) { return h.node == m.node; });
  if (!s.is_open || is_last(s) || s.current.stages[s.config.stage + 1].node != m.node)
    return;
  s.is_open = false;
  announce(self);
}

void run(pointer self, micro_batch& batch) {
  auto& s = self->state;
  if (!s.is_open || batch.epoch != s.current.epoch) {
    ++s.stale_batches;
    return;
  }
  auto started = s.config.now_micros();
  std::span<const float> in(reinterpret_cast<const float*>(batch.activations.data),
                            batch.activations.size_bytes / sizeof(float));
  auto out = s.config.engine->run(batch, in);
  batch.stage_micros.push_back(static_cast<std::uint32_t>(s.config.now_micros() - started));
  if (out && !is_last(s)) {
    batch.activations = copy_activations(out->activations);
    batch.lease.reset();
    self->send(s.config.peers.stage(s.current.stages[s.config.stage + 1].node), std::move(batch));
    return;
  }
  sampled answer{batch.batch, batch.epoch, {}, std::move(batch.stage_micros), std::nullopt};
  if (out) {
    answer.samples = std::move(out->samples);
  } else {
    spdlog::error("stage {}: batch {} failed: {}", s.config.stage, batch.batch.value,
                  out.error().message);
    answer.failure = out.error();
  }
  self->send(s.config.scheduler, std::move(answer));
}

} // namespace

stage_actor::behavior_type stage(pointer self, stage_config config) {
  install_fault_handlers(self);
  self->state.config = std::move(config);
  return {
      [self](const open_epoch& m) { enter_epoch(self, m); },
      [self](micro_batch& m) { run(self, m); },
      [self](const peer_up& m) {
        auto& s = self->state;
        std::erase_if(s.linked, [&](const hello& h) { return h.node == m.peer.node; });
        s.linked.push_back(m.peer);
        if (m.peer.node == s.config.head)
          announce(self);
        open_if_linked(self);
      },
      [self](const peer_down& m) { lose_peer(self, m); },
  };
}

} // namespace baton::actors
