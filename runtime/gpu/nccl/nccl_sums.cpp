#include "runtime/gpu/nccl/nccl_sums.hpp"

#include "runtime/gpu/device/device.hpp"

#include <thread>

namespace baton::gpu {

nccl_sums::nccl_sums(std::unique_ptr<nccl_calls> calls, const plugin::settings& with,
                     const plugin::host& shard, nccl_options options)
    : calls_(std::move(calls)), rank_(with.rank), width_(with.width), shard_(shard),
      options_(std::move(options)) {}

nccl_sums::~nccl_sums() {
  end();
}

void nccl_sums::end() noexcept {
  if (communicator_ != nullptr)
    calls_->abort(communicator_);
  communicator_ = nullptr;
}

void nccl_sums::give_up(const std::string& why) {
  end();
  throw refused(plugin::status::group_failed, "rank " + std::to_string(rank_) + " of " +
                                                  std::to_string(width_) + ", epoch " +
                                                  std::to_string(epoch_.value_or(0)) + ": " + why);
}

void nccl_sums::enter(std::uint64_t epoch) {
  if (epoch == epoch_ && communicator_ != nullptr)
    return;
  if (epoch == epoch_)
    give_up("the connection of the ranks failed in this epoch");
  end();
  epoch_ = epoch;
  const auto until = options_.now() + options_.begin_patience;
  communicator_ = calls_->begin(agree_on_id(), rank_, width_);
  if (communicator_ == nullptr)
    give_up(calls_->last_error());
  await([&] { return calls_->state_of(communicator_); }, until, "creating a communicator");
}

// The shards trust each other: the id is sent over their bus or shared memory, as a sum in which
// all ranks but the first contribute zeros.
nccl_id nccl_sums::agree_on_id() {
  nccl_id id{};
  if (rank_ == 0 && !unused_id_)
    unused_id_ = calls_->make_id();
  if (rank_ == 0)
    id = *unused_id_;
  float values[std::tuple_size_v<nccl_id>];
  for (std::size_t i = 0; i < id.size(); ++i)
    values[i] = id[i];
  plugin::failure why;
  if (const auto s = shard_.all_reduce(shard_.context, values, id.size(), &why);
      s != plugin::status::ok)
    give_up(why.message);
  unused_id_.reset();
  for (std::size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<unsigned char>(values[i]);
  return id;
}

void nccl_sums::await(const std::function<nccl_progress()>& state, time_point until,
                      std::string_view what) {
  for (;;) {
    const auto now = state();
    if (now == nccl_progress::done)
      return;
    if (now == nccl_progress::failed)
      give_up(calls_->last_error());
    plugin::failure why;
    if (shard_.look(shard_.context, &why) != plugin::status::ok)
      give_up(why.message);
    if (options_.now() >= until)
      give_up("timed out " + std::string(what));
    if (options_.pause)
      options_.pause();
    else
      std::this_thread::yield();
  }
}

void nccl_sums::sum(float* values, std::size_t count) {
  if (communicator_ == nullptr)
    give_up("no epoch has been entered");
  const auto until = options_.now() + options_.step_patience;
  if (!calls_->add_sum(communicator_, values, count))
    give_up(calls_->last_error());
  await([&] { return calls_->state_of(communicator_); }, until, "enqueuing a sum");
}

void nccl_sums::finish() {
  if (communicator_ == nullptr)
    give_up("no epoch has been entered");
  const auto until = options_.now() + options_.step_patience;
  await(
      [&] {
        // After an asynchronous error the device's work never completes.
        const auto state = calls_->state_of(communicator_);
        return state == nccl_progress::done ? calls_->device_state() : state;
      },
      until, "waiting for the other ranks");
}

} // namespace baton::gpu
