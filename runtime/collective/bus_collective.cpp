#include "runtime/collective/bus_collective.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace baton::collective {
namespace {

enum bus_purpose : std::uint64_t { bus_reduced = 1, bus_gathered, bus_agreed };

void copy(const void* from, std::size_t floats, void* to) {
  if (floats > 0)
    std::memcpy(to, from, floats * sizeof(float));
}

payload payload_of(std::span<const float> values) {
  if (values.empty())
    return {};
  auto owner = std::make_shared<std::vector<float>>(values.begin(), values.end());
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  return {std::move(owner), data, values.size_bytes()};
}

// A received payload is aligned for floats and has no other writer.
const float* floats_of(const group_values& m) {
  return reinterpret_cast<const float*>(m.values.data);
}

// The next piece of a span after its first `done` values.
template <class T>
std::span<T> piece_of(std::span<T> values, std::size_t done) {
  const auto left = values.subspan(std::min(done, values.size()));
  return left.first(std::min(left.size(), piece_floats));
}

} // namespace

bus_collective::bus_collective(std::uint32_t rank, std::uint32_t width,
                               std::shared_ptr<group_inbox> inbox, sender send, bus_options options)
    : ranked_collective(rank, width, piece_floats), inbox_(std::move(inbox)),
      send_(std::move(send)), options_(options) {}

void bus_collective::begin(epoch_id epoch) {
  epoch_ = epoch;
  meeting_ = 0;
  failure_.reset();
  inbox_->begin(epoch);
  if (rank_ == 0) // ends the previous epoch for waiting ranks
    broadcast({}, {});
}

// -- Messages --

group_values bus_collective::message_for(const purpose& what, std::span<const float> values) const {
  return {.epoch = epoch_,
          .rank = rank_,
          .meeting = meeting_,
          .kind = what.kind,
          .about = what.about,
          .values = payload_of(values)};
}

// The peer's message for this rendezvous, which must have the same purpose.
result<group_values> bus_collective::receive(std::uint32_t from, const purpose& what,
                                             std::size_t floats) {
  auto m = inbox_->await(from, meeting_, group_inbox::clock::now() + options_.deadline);
  if (m && (m->kind != what.kind || m->about != what.about ||
            m->values.size_bytes != floats * sizeof(float)))
    return fail(errc::internal, "rank {} calls operation {} of {}, rank {} operation {} of {}",
                rank_, what.kind, what.about, from, m->kind, m->about);
  return m;
}

// On other ranks than 0. Requires: `answer` has the size of rank 0's answer.
result<void> bus_collective::send_and_receive(const purpose& what, std::span<const float> own,
                                              std::span<float> answer) {
  send_(0, message_for(what, own));
  const auto m = receive(0, what, answer.size());
  if (!m)
    return m.error();
  copy(m->values.data, answer.size(), answer.data());
  return {};
}

// Sends the same bytes to all. Rendezvous 0 announces the epoch; it answers no message.
void bus_collective::broadcast(const purpose& what, std::span<const float> values) {
  const auto m = message_for(what, values);
  for (std::uint32_t peer = 1; peer < width_; ++peer)
    send_(peer, group_values(m));
}

// -- Values --

// Links exist only between rank 0 and each other rank.
result<void> bus_collective::look() {
  if (failure_)
    return *failure_;
  for (std::uint32_t peer = rank_ == 0 ? 1 : 0; peer < (rank_ == 0 ? width_ : 1); ++peer)
    if (auto ok = inbox_->look(peer); !ok)
      return kept(ok);
  return {};
}

result<void> bus_collective::agree(std::uint64_t what) {
  if (failure_)
    return *failure_;
  ++meeting_;
  const purpose here{bus_agreed, what};
  if (rank_ > 0)
    return kept(send_and_receive(here, {}, {}));
  for (std::uint32_t peer = 1; peer < width_; ++peer)
    if (const auto m = receive(peer, here, 0); !m)
      return kept(m.error());
  broadcast(here, {});
  return {};
}

result<void> bus_collective::all_reduce(std::span<float> values) {
  if (failure_)
    return *failure_;
  for (std::size_t done = 0; done < values.size() && width_ > 1; done += piece_floats)
    if (auto ok = reduce_piece(piece_of(values, done)); !ok)
      return kept(ok);
  return {};
}

result<void> bus_collective::reduce_piece(std::span<float> values) {
  ++meeting_;
  const purpose here{bus_reduced, values.size()};
  if (rank_ > 0)
    return send_and_receive(here, values, values);
  for (std::uint32_t peer = 1; peer < width_; ++peer) {
    const auto m = receive(peer, here, values.size());
    if (!m)
      return m.error();
    const float* more = floats_of(*m);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] += more[i];
  }
  broadcast(here, values);
  return {};
}

// All ranks take part, also those with no values left. Rank 0's acknowledgement is empty.
result<void> bus_collective::gather_piece(std::span<const float> own, std::span<float> all,
                                          std::span<const std::size_t> counts, std::size_t done) {
  ++meeting_;
  const purpose here{bus_gathered, done};
  if (rank_ > 0)
    return send_and_receive(here, piece_of(own, done), {});
  std::size_t begin = counts[0];
  for (std::uint32_t peer = 1; peer < width_; begin += counts[peer], ++peer) {
    const auto to = piece_of(all.subspan(begin, counts[peer]), done);
    const auto m = receive(peer, here, to.size());
    if (!m)
      return m.error();
    copy(m->values.data, to.size(), to.data());
  }
  broadcast(here, {});
  return {};
}

} // namespace baton::collective
