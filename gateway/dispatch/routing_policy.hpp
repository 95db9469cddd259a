// Chooses the pipeline of a request where several serve its model. It prefers the pipeline that has
// most of the prompt in its prefix cache, unless another one is much less busy. Pure; one thread.
//
// With one pipeline per model there is no choice, and the prompt is not read.
#pragma once

#include "gateway/base/inflight_counts.hpp"
#include "gateway/base/snapshot.hpp"
#include "gateway/dispatch/prefix_cache_index.hpp"

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

// The inputs of a choice: views of the request.
struct route_query {
  std::string_view model;
  const prompt& input;
  std::string_view cache_salt;
  std::uint32_t choices = 1;
};

class routing_policy {
public:
  routing_policy(std::size_t pipelines, inflight_counts inflight);

  // A pipeline that is not ready is chosen only if none of the model is. Records the prompt as
  // computed there.
  route choose(const snapshot& now, const route_query& q);
  // A ready pipeline that is not in `tried`.
  std::optional<route> choose_other(const snapshot& now, const route_query& q,
                                    const pipeline_set& tried);
  // For cheap requests: as choose, without a prompt.
  std::uint32_t any_of(const snapshot& now, std::string_view model);

private:
  struct pipeline {
    prefix_cache_index known;
    std::uint64_t losses = 0;
  };
  struct fill {
    std::uint32_t busy = 0; // running or waiting
    std::uint32_t slots = 1;
    double share() const { return static_cast<double>(busy) / slots; }
    bool has_room(std::uint32_t choices) const { return busy + choices <= slots; }
  };

  // The model's pipelines in the best available state, starting after the last choice.
  std::vector<std::uint32_t> candidates(const snapshot& now, std::string_view model,
                                        const pipeline_set& tried) const;
  void look_at(const snapshot& now, std::uint32_t i);
  fill fill_of(const snapshot& now, std::uint32_t i) const;
  std::uint32_t least_full(const snapshot& now, const std::vector<std::uint32_t>& among) const;
  route choose_among(const snapshot& now, const route_query& q,
                     const std::vector<std::uint32_t>& among);

  std::vector<pipeline> pipelines_;
  inflight_counts inflight_;
  std::uint32_t last_ = 0; // the last choice
};

// For a request with a request_id: always the same pipeline, ready or not. A repeated request thus
// reaches the log that knows its id.
std::uint32_t route_by_name(const snapshot& now, std::string_view model,
                            std::string_view request_id);

} // namespace baton::gateway
