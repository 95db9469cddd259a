#include "gateway/dispatch/routing_policy.hpp"

#include "schema/digest.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

// Per pipeline: about 1 Mi tokens, more than most KV caches hold, in about 1 MiB.
constexpr std::size_t remembered_max = 16 * 1024;

// Shorter matches do not count: a step computes so few tokens beside those of other requests
// (model.prefill_chunk).
constexpr std::size_t blocks_worth = 2;

// A pipeline whose load share is higher by this much delays every token of the answer noticeably.
// Computing the prefix twice costs once, and then both pipelines have it.
constexpr double fuller_max = 0.25;

} // namespace

std::string_view name_of(route_reason why) noexcept {
  switch (why) {
  case route_reason::load:
    return "load";
  case route_reason::prefix:
    return "prefix";
  case route_reason::request_id:
    return "request_id";
  case route_reason::resume:
    return "resume";
  case route_reason::moved:
    return "moved";
  }
  return "unknown";
}

routing_policy::routing_policy(std::size_t pipelines, inflight_counts inflight)
    : pipelines_(pipelines, pipeline{prefix_cache_index(remembered_max)}),
      inflight_(std::move(inflight)), last_(static_cast<std::uint32_t>(pipelines - 1)) {}

std::vector<std::uint32_t> routing_policy::candidates(const snapshot& now, std::string_view model,
                                                      const pipeline_set& tried) const {
  auto all = pipelines_of(now, model);
  std::erase_if(all, [&](std::uint32_t i) { return tried[i]; });
  const auto can = [&](bool (*able)(const pipeline_view&)) {
    return [&now, able](std::uint32_t i) { return able(now.pipelines[i]); };
  };
  for (const auto& is_able : {can(is_ready), can(takes_requests)}) {
    if (std::any_of(all.begin(), all.end(), is_able)) {
      std::erase_if(all, [&](std::uint32_t i) { return !is_able(i); });
      break;
    }
  }
  const auto next = std::upper_bound(all.begin(), all.end(), last_);
  std::rotate(all.begin(), next, all.end());
  return all;
}

// A head that was lost has lost its cache.
void routing_policy::look_at(const snapshot& now, std::uint32_t i) {
  const auto& view = now.pipelines[i];
  auto& p = pipelines_[i];
  if (p.losses != view.losses) {
    p.losses = view.losses;
    p.known.clear();
  }
}

routing_policy::fill routing_policy::fill_of(const snapshot& now, std::uint32_t i) const {
  const auto& view = now.pipelines[i];
  fill f;
  f.busy = inflight_.at(i);
  if (const auto reported = view.load ? view.load->running + view.load->waiting : 0;
      reported > view.open_then) { // requests of other gateways
    f.busy += reported - view.open_then;
  }
  f.slots = std::max(1u, view.card ? view.card->sequences_max : 1u);
  return f;
}

// The first of equals.
std::uint32_t routing_policy::least_full(const snapshot& now,
                                         const std::vector<std::uint32_t>& among) const {
  return *std::min_element(among.begin(), among.end(), [&](std::uint32_t a, std::uint32_t b) {
    return fill_of(now, a).share() < fill_of(now, b).share();
  });
}

route routing_policy::choose_among(const snapshot& now, const route_query& q,
                                   const std::vector<std::uint32_t>& among) {
  for (const auto i : among) {
    look_at(now, i);
  }
  const auto hashes = prefix_hashes_of(q.input, q.cache_salt);
  const auto least = least_full(now, among);
  route chosen{least, route_reason::load};
  if (hashes.size() >= blocks_worth) {
    std::size_t longest = 0;
    std::vector<std::uint32_t> have_it;
    for (const auto i : among) {
      const auto blocks = pipelines_[i].known.match(hashes);
      if (blocks > longest) {
        longest = blocks;
        have_it.clear();
      }
      if (blocks == longest) {
        have_it.push_back(i);
      }
    }
    const auto best = least_full(now, have_it);
    const auto is = fill_of(now, best);
    const auto could_be = fill_of(now, least);
    const bool would_wait = !is.has_room(q.choices) && could_be.has_room(q.choices);
    const bool is_much_fuller = would_wait || is.share() - could_be.share() > fuller_max;
    if (longest >= blocks_worth && !is_much_fuller) {
      chosen = {best, route_reason::prefix};
    }
  }
  pipelines_[chosen.pipeline].known.note(hashes);
  last_ = chosen.pipeline;
  return chosen;
}

route routing_policy::choose(const snapshot& now, const route_query& q) {
  const auto of_model = pipelines_of(now, q.model);
  if (of_model.size() <= 1) { // the head itself rejects an unknown model
    return {of_model.empty() ? 0 : of_model.front(), route_reason::load};
  }
  return choose_among(now, q, candidates(now, q.model, {}));
}

std::optional<route> routing_policy::choose_other(const snapshot& now, const route_query& q,
                                                  const pipeline_set& tried) {
  if (!is_served(now, q.model, tried)) {
    return std::nullopt;
  }
  return choose_among(now, q, candidates(now, q.model, tried));
}

std::uint32_t routing_policy::any_of(const snapshot& now, std::string_view model) {
  const auto among = candidates(now, model, {});
  if (among.size() <= 1) {
    return among.empty() ? 0 : among.front();
  }
  for (const auto i : among) {
    look_at(now, i);
  }
  return last_ = least_full(now, among);
}

std::uint32_t route_by_name(const snapshot& now, std::string_view model,
                            std::string_view request_id) {
  const auto all = pipelines_of(now, model);
  return all.empty() ? 0 : all[digest_of(request_id) % all.size()];
}

} // namespace baton::gateway
