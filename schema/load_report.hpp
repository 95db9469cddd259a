// How busy a model is: what its head reports to gateways and root, for /metrics, /health and
// `cluster status`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton {

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
};

} // namespace baton
