// The collective of shards on several nodes, which share no memory: rank 0 exchanges messages with
// each of the others over the bus. Correct but slow: a rendezvous is a message in each direction,
// where shared memory (shared_collective.hpp) takes a microsecond.
//
//   rank r   --- group_values: what it has ---> rank 0   waits for all, forms the sum,
//            <-- group_values: the result ------         answers each
//
//                      begin(epoch)                    a call fails
//     outside (at first) ----------> inside, calls work -----------> broken, calls give the failure
//                                      ^                                |
//                                      +--------------------------------+  begin(newer epoch)
//
// Sums are formed in rank order, as in shared memory: the bits are the same. Large values are sent
// in pieces, one at a time. At most one piece is in transit per direction, so no link credit is
// needed.
#pragma once

#include "runtime/collective/group_inbox.hpp"
#include "runtime/collective/ranked_collective.hpp"

#include <functional>

namespace baton::collective {

// Floats of a piece: 1 MiB.
inline constexpr std::size_t piece_floats = std::size_t{256} << 10U;

struct bus_options {
  std::chrono::milliseconds deadline = wait_max; // for each wait for another rank
};

// For one thread at a time.
class bus_collective final : public ranked_collective {
public:
  // Hands a message for that rank to the bus; does not wait, and may lose it with its link.
  using sender = std::function<void(std::uint32_t rank, group_values&& m)>;

  // Requires: rank < width.
  bus_collective(std::uint32_t rank, std::uint32_t width, std::shared_ptr<group_inbox> inbox,
                 sender send, bus_options options = {});

  void begin(epoch_id epoch);
  result<void> agree(std::uint64_t what) override;
  result<void> all_reduce(std::span<float> values) override;
  result<void> look() override;

private:
  struct purpose {
    std::uint64_t kind = 0;
    std::uint64_t about = 0; // number of floats, or the value to agree on
  };

  group_values message_for(const purpose& what, std::span<const float> values) const;
  result<group_values> receive(std::uint32_t from, const purpose& what, std::size_t floats);
  result<void> send_and_receive(const purpose& what, std::span<const float> own,
                                std::span<float> answer);
  void broadcast(const purpose& what, std::span<const float> values);
  result<void> reduce_piece(std::span<float> values);
  result<void> gather_piece(std::span<const float> own, std::span<float> all,
                            std::span<const std::size_t> counts, std::size_t done) override;

  const std::shared_ptr<group_inbox> inbox_;
  const sender send_;
  const bus_options options_;
  epoch_id epoch_;
  std::uint64_t meeting_ = 0;
};

} // namespace baton::collective
