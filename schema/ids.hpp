// Strong ids: one line each, no mixing of integers. `none` (0) is never a valid id.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace baton {

template <class Tag, class Rep>
struct strong_id {
  using rep = Rep;
  Rep value{};
  friend constexpr auto operator<=>(const strong_id&, const strong_id&) = default;
  constexpr explicit operator bool() const noexcept { return value != Rep{}; }
};

// A process of the cluster (gateway, head, agent of node a, shard 1 ...), independent of its
// incarnation. The number is stable across restarts.
using process_id = strong_id<struct process_tag, std::uint32_t>;
// One run of a process, from its start to its end. Grows with every restart.
using incarnation_id = strong_id<struct incarnation_tag, std::uint64_t>;
// An uninterrupted run of a pipeline. Grows with every one.
using epoch_id = strong_id<struct epoch_tag, std::uint64_t>;
// An actor published on the bus by its process (see actors/interfaces.hpp).
using actor_id = strong_id<struct actor_tag, std::uint32_t>;
// The admission of a request, its id for life.
using ticket_id = strong_id<struct ticket_tag, std::uint64_t>;
// Rows that travel together through the stages; grows by one within an epoch.
using batch_id = strong_id<struct batch_tag, std::uint64_t>;

// The maximum number of pipelines in a cluster. Each has a head and shards of its own. A ticket's
// number encodes its pipeline, so a resuming client reaches the right head.
inline constexpr std::uint32_t pipelines_max = 64;
constexpr std::uint32_t pipeline_of(ticket_id ticket) noexcept {
  return static_cast<std::uint32_t>(ticket.value % pipelines_max);
}
// The first ticket of a head's incarnation (its start in µs); others follow in steps of
// pipelines_max. A head grants fewer than one per pipelines_max µs, so numbers exceed all earlier
// ones. They stay below 2^53 until 2255, so JavaScript reads them exactly.
constexpr ticket_id first_ticket_of(incarnation_id incarnation, std::uint32_t pipeline) noexcept {
  return {incarnation.value - incarnation.value % pipelines_max + pipeline};
}

// A sequence is one choice of a ticket (n > 1 gives several).
struct sequence_id {
  ticket_id ticket;
  std::uint32_t choice = 0;
  friend constexpr auto operator<=>(const sequence_id&, const sequence_id&) = default;
};

using token_id = std::int32_t;     // an entry of the vocabulary
using block_index = std::uint32_t; // an entry of the paged KV memory, the same at every stage
using stage_index = std::uint32_t; // 0 is the stage that embeds

} // namespace baton

template <class Tag, class Rep>
struct std::hash<baton::strong_id<Tag, Rep>> {
  std::size_t operator()(const baton::strong_id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};

template <>
struct std::hash<baton::sequence_id> {
  std::size_t operator()(const baton::sequence_id& id) const noexcept {
    return std::hash<std::uint64_t>{}(id.ticket.value * 0x9E3779B97F4A7C15ull + id.choice);
  }
};
