// Which pipeline a request goes to, where several serve its model: the one that has most of its
// prompt in its prefix cache, unless another is so much emptier that it is there sooner. Pure; one
// thread.
//
// With one pipeline for a model there is nothing to choose, and no prompt is looked at.
#pragma once

#include "gateway/base/open_seats.hpp"
#include "gateway/base/snapshot.hpp"
#include "gateway/dispatch/prefix_memory.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace baton::gateway {

enum class route_reason : std::uint8_t { load, prefix, request_id, resume, moved };
std::string_view name_of(route_reason why) noexcept; // a label of /metrics

struct route {
  std::uint32_t pipeline = 0;
  route_reason why = route_reason::load;
};

// What a choice depends on. Views: of the request.
struct route_question {
  std::string_view model;
  const prompt& input;
  std::string_view cache_salt;
  std::uint32_t choices = 1;
};

class router {
public:
  router(std::size_t pipelines, open_seats seats);

  // One that is not ready is chosen only if all of the model are not. Remembers the prompt as
  // computed there.
  route choose(const snapshot& now, const route_question& q);
  // One that is ready and not in `tried`.
  std::optional<route> choose_other(const snapshot& now, const route_question& q,
                                    const pipeline_set& tried);
  // For what costs nothing: as choose, without a prompt.
  std::uint32_t any_of(const snapshot& now, std::string_view model);

private:
  struct pipeline {
    prefix_memory known;
    std::uint64_t losses = 0;
  };
  struct fill {
    std::uint32_t busy = 0; // running or waiting
    std::uint32_t slots = 1;
    double share() const { return static_cast<double>(busy) / slots; }
    bool has_room(std::uint32_t choices) const { return busy + choices <= slots; }
  };

  // Those of the model that are best able to serve, from the one behind the last choice on.
  std::vector<std::uint32_t> candidates(const snapshot& now, std::string_view model,
                                        const pipeline_set& tried) const;
  void look_at(const snapshot& now, std::uint32_t i);
  fill fill_of(const snapshot& now, std::uint32_t i) const;
  std::uint32_t least_full(const snapshot& now, const std::vector<std::uint32_t>& among) const;
  route choose_among(const snapshot& now, const route_question& q,
                     const std::vector<std::uint32_t>& among);

  std::vector<pipeline> pipelines_;
  open_seats seats_;
  std::uint32_t last_ = 0; // chosen
};

// For a request that its client has named: always the same, ready or not, so that who asks again
// meets the log that knows of it.
std::uint32_t route_by_name(const snapshot& now, std::string_view model,
                            std::string_view request_id);

} // namespace baton::gateway
