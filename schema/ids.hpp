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

// A process of the cluster: a stable place (gateway, head, agent of node a, shard 1 ...), whatever
// life it is in.
using node_id = strong_id<struct node_tag, std::uint32_t>;
// One life of a process, or one uninterrupted life of the pipeline. Grows with every restart.
using epoch_id = strong_id<struct epoch_tag, std::uint64_t>;
// An actor published on the bus by its process (see actors/interfaces.hpp).
using actor_id = strong_id<struct actor_tag, std::uint32_t>;
// The admission of a request, its id for life.
using ticket_id = strong_id<struct ticket_tag, std::uint64_t>;
// Rows that travel together through the stages; grows by one within an epoch.
using batch_id = strong_id<struct batch_tag, std::uint64_t>;

// A cluster has up to so many pipelines: heads, each with shards of its own. The number of a ticket
// says whose it is, so that whoever comes back to it finds the head that has it.
inline constexpr std::uint32_t pipelines_max = 64;
constexpr std::uint32_t pipeline_of(ticket_id ticket) noexcept {
  return static_cast<std::uint32_t>(ticket.value % pipelines_max);
}
// The first of a life of a head; the others follow in steps of pipelines_max. A life's epoch is the
// microsecond in which it began, and fewer are granted than one in pipelines_max of them: above all
// of an earlier life. Below 2^53 until the year 2255, so that JavaScript reads the number as it is.
constexpr ticket_id first_ticket_of(epoch_id life, std::uint32_t pipeline) noexcept {
  return {life.value - life.value % pipelines_max + pipeline};
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
