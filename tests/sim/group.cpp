#include "tests/sim/group.hpp"

#include "runtime/collective/shared_collective.hpp"
#include "tests/sim/world.hpp"

namespace baton::sim {
namespace {

std::uint64_t digest_of(const result<engine::step_output>& out) {
  if (!out)
    return static_cast<std::uint64_t>(out.error().code);
  std::uint64_t digest = 0xCBF29CE484222325ull; // FNV-1a, a value at a time
  const auto mix = [&](auto value) {
    digest = (digest ^ static_cast<std::uint64_t>(value)) * 0x100000001B3ull;
  };
  for (const float value : out->activations)
    mix(value); // whole numbers
  for (const auto& drawn : out->samples)
    mix(drawn.token);
  return digest;
}

} // namespace

sim_group::sim_group(world& w, promises& p, std::shared_ptr<stage_group> shared, const place& where,
                     std::function<bool(std::uint32_t)> is_gone)
    : world_(w), promises_(p), shared_(std::move(shared)), where_(where),
      is_gone_(std::move(is_gone)) {}

result<void> sim_group::enter(epoch_id epoch) {
  if (world_.refuses_group && world_.refuses_group(where_.stage))
    return fail(errc::io_failed, "no memory for the group");
  if (where_.rank == 0 && epoch > shared_->epoch) {
    shared_->epoch = epoch;
    shared_->now.reset();
  } else if (where_.rank == 0 || epoch != shared_->epoch) {
    return fail(errc::stale_epoch, "epoch {} of a group, which is in {}", epoch.value,
                shared_->epoch.value);
  }
  entered_ = epoch;
  is_broken_ = false;
  return {};
}

result<void> sim_group::meet(batch_id batch) {
  result<void> outcome;
  auto& now = shared_->now;
  if (is_broken_ || entered_ != shared_->epoch) {
    outcome = fail(errc::stale_epoch, "epoch {} of a group is over", entered_.value);
  } else if (where_.rank == 0) {
    now = {batch, {}, false};
    outcome = wait_for_others();
  } else if (!now) {
    outcome = fail(errc::deadline_exceeded, "rank 0 did not come");
  } else if (now->batch != batch) {
    now->is_failed = true;
    outcome = fail(errc::internal, "ranks of a group do not agree");
  }
  is_broken_ |= !outcome;
  if (!outcome && where_.rank == 0)
    now.reset();
  return outcome;
}

// The other ranks compute their part while it waits.
result<void> sim_group::wait_for_others() {
  auto& now = *shared_->now;
  const auto gone = [&] {
    for (std::uint32_t rank = 1; rank < where_.width; ++rank)
      if (!now.came.contains(rank) && is_gone_(rank))
        return true;
    return false;
  };
  const auto all_came = [&] { return now.came.size() + 1 == where_.width; };
  static const auto deadline = collective::shared_options{}.deadline;
  world_.go_on([&] { return all_came() || now.is_failed || gone(); }, deadline);
  if (now.is_failed)
    return fail(errc::internal, "ranks of a group do not agree");
  if (all_came())
    return {};
  if (gone())
    return fail(errc::link_down, "a rank is gone");
  return fail(errc::deadline_exceeded, "a rank did not come");
}

void sim_group::compare(const result<engine::step_output>& out) {
  const auto own = digest_of(out);
  if (where_.rank > 0) {
    shared_->now->came[where_.rank] = own;
    return;
  }
  for (const auto& [rank, digest] : shared_->now->came)
    if (digest != own)
      promises_.on_disagreement(where_.stage, rank);
  shared_->now.reset();
}

} // namespace baton::sim
