// How busy a model is: what its head reports to gateways and root, for /metrics, /health and
// `cluster status`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton {

// How often something was of which size, so far.
struct size_counts {
  std::vector<std::uint64_t> counts; // up to each border, beyond the one before; the last: larger
  std::uint64_t sum = 0;             // of the sizes

  void add(std::uint64_t size, std::span<const std::uint64_t> borders) {
    const auto at = std::lower_bound(borders.begin(), borders.end(), size) - borders.begin();
    counts.resize(borders.size() + 1);
    ++counts[static_cast<std::size_t>(at)];
    sum += size;
  }
};

// vLLM's for its iterations, and TGI's for its batches.
inline constexpr std::array<std::uint64_t, 13> step_rows_borders{
    1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
inline constexpr std::array<std::uint64_t, 16> step_micros_borders{
    500,     1'000,   2'500,   5'000,     10'000,    20'000,    50'000,     100'000,
    200'000, 500'000, 750'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000, 30'000'000};

// Head to gateways and root a few times a second.
struct load_report {
  std::string model;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t blocks_used = 0;
  std::uint32_t blocks_total = 0;
  std::uint32_t in_flight = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t steps = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t epochs = 0;
  std::uint64_t recoveries = 0;
  double recovery_seconds = 0;            // of the last
  double bubble_ratio = 0;                // share of time that stages waited, last report interval
  std::uint64_t prefix_cache_queries = 0; // prompt tokens looked up, of each choice
  std::uint64_t prefix_cache_hits = 0;    // of these, found
  std::uint64_t spec_decode_drafts = 0;   // rows with guesses behind them
  std::uint64_t spec_decode_draft_tokens = 0;    // guesses
  std::uint64_t spec_decode_accepted_tokens = 0; // of these, right
  std::vector<std::uint64_t> stage_busy_micros;
  std::uint32_t swapped = 0; // sequences whose KV is in swap space
  std::uint32_t swap_blocks_used = 0;
  std::uint32_t swap_blocks_total = 0;
  std::uint64_t swapped_out_blocks = 0;     // copied to swap space so far
  std::uint64_t swapped_in_blocks = 0;      // and back
  std::uint64_t max_batch_total_tokens = 0; // positions of all KV blocks
  std::uint32_t detached = 0;               // sequences that nobody listens to at the moment
  std::uint64_t running_tokens = 0;         // positions computed of sequences in steps
  std::uint64_t running_max_tokens = 0;     // to which they may come
  size_counts step_rows{};                  // of steps that came back well
  size_counts prefill_micros{},
      decode_micros{}; // all stages' work at those with prompts' rows in them, and at others
  std::uint64_t prefills_failed = 0, decodes_failed = 0; // steps
};

} // namespace baton
