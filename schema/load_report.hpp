// A model's load: its head reports it to gateways and root for /metrics, /health and `cluster
// status`.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton {

// A histogram of sizes since the start.
struct size_counts {
  std::vector<std::uint64_t> counts; // up to each border, above the previous one; the last: larger
  std::uint64_t sum = 0;             // of the sizes

  void add(std::uint64_t size, std::span<const std::uint64_t> borders) {
    const auto at = std::lower_bound(borders.begin(), borders.end(), size) - borders.begin();
    counts.resize(borders.size() + 1);
    ++counts[static_cast<std::size_t>(at)];
    sum += size;
  }
};

// vLLM's buckets for its iterations, and TGI's for its batches.
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
  double recovery_seconds = 0; // of the last
  double bubble_ratio = 0;     // share of time in which stages were idle, last report interval
  std::uint64_t prefix_cache_queries = 0;        // prompt tokens looked up, for each choice
  std::uint64_t prefix_cache_hits = 0;           // tokens found among them
  std::uint64_t spec_decode_drafts = 0;          // rows with draft tokens
  std::uint64_t spec_decode_draft_tokens = 0;    // draft tokens
  std::uint64_t spec_decode_accepted_tokens = 0; // draft tokens that were accepted
  std::vector<std::uint64_t> stage_busy_micros;
  std::uint32_t swapped = 0; // sequences whose KV is in swap space
  std::uint32_t swap_blocks_used = 0;
  std::uint32_t swap_blocks_total = 0;
  std::uint64_t swapped_out_blocks = 0;     // copied to swap space so far
  std::uint64_t swapped_in_blocks = 0;      // copied back
  std::uint64_t max_batch_total_tokens = 0; // positions of all KV blocks
  std::uint32_t orphaned = 0;               // sequences without a listener at the moment
  std::uint64_t running_tokens = 0;         // positions computed, of the running sequences
  std::uint64_t running_max_tokens = 0;     // the most positions that they can reach
  size_counts step_rows{};                  // rows of successful steps
  size_counts prefill_micros{},
      decode_micros{}; // total stage time of steps with prefill rows, and of other steps
  std::uint64_t prefills_failed = 0, decodes_failed = 0; // steps
};

} // namespace baton
