#include "gateway/metrics/rising_count.hpp"

#include <algorithm>
#include <tuple>

namespace baton::gateway {
namespace {

// The counts of a head's report, except those by size and by stage.
constexpr std::array counted{
    &load_report::prompt_tokens,
    &load_report::output_tokens,
    &load_report::steps,
    &load_report::preemptions,
    &load_report::epochs,
    &load_report::recoveries,
    &load_report::prefix_cache_queries,
    &load_report::prefix_cache_hits,
    &load_report::spec_decode_drafts,
    &load_report::spec_decode_draft_tokens,
    &load_report::spec_decode_accepted_tokens,
    &load_report::swapped_out_blocks,
    &load_report::swapped_in_blocks,
    &load_report::prefills_failed,
    &load_report::decodes_failed,
};
constexpr std::array counted_sizes{&load_report::step_rows, &load_report::prefill_micros,
                                   &load_report::decode_micros};

} // namespace

void load_totals::take(counts& known, std::vector<std::uint64_t>& now) {
  known.resize(std::max(known.size(), now.size()));
  for (std::size_t i = 0; i < now.size(); ++i) {
    now[i] = known[i].take(now[i]);
  }
  for (std::size_t i = now.size(); i < known.size(); ++i) { // of a stage that no longer exists
    now.push_back(known[i].total());
  }
}

void load_totals::take(sizes& known, size_counts& now) {
  take(known.each, now.counts);
  now.sum = known.sum.take(now.sum);
}

load_report load_totals::take(load_report now) {
  static_assert(counted.size() == single_counts);
  static_assert(counted_sizes.size() == std::tuple_size_v<decltype(sizes_)>);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    now.*counted[i] = single_[i].take(now.*counted[i]);
  }
  take(busy_, now.stage_busy_micros);
  for (std::size_t i = 0; i < counted_sizes.size(); ++i) {
    take(sizes_[i], now.*counted_sizes[i]);
  }
  return now;
}

void load_totals::next_incarnation() {
  const auto end = [](counts& all) {
    for (auto& one : all) {
      one.next_incarnation();
    }
  };
  for (auto& one : single_) {
    one.next_incarnation();
  }
  end(busy_);
  for (auto& one : sizes_) {
    end(one.each);
    one.sum.next_incarnation();
  }
}

} // namespace baton::gateway
