// Settings and limits of the scheduler.
#pragma once

#include "runtime/schedule/context/prompt_lookup.hpp"
#include "schema/messages.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace baton::schedule {

using time_point = std::chrono::steady_clock::time_point;

// The order of service: by arrival, or by the request's `priority` first.
enum class scheduling_policy : std::uint8_t { fcfs, priority };

// Names follow vLLM and TorchServe where they have one.
struct scheduler_config {
  std::uint32_t max_num_seqs = 64;            // slots: sequences that run at the same time
  std::uint32_t max_num_batched_tokens = 256; // rows of one micro-batch
  // Maximum tokens that the running sequences may reach together, prompts and outputs: TGI's batch
  // budget. At least max_model_len; 0: as many as the KV memory holds.
  std::uint64_t max_batch_total_tokens = 0;
  std::uint32_t prefill_chunk = 128;       // prompt rows among them: bounds a decode's wait
  std::uint32_t max_model_len = 2048;      // positions of one sequence, prompt and output
  std::uint32_t vocabulary_size = 0;       // required: ids from clients are checked against it
  std::uint32_t max_num_queued_reqs = 128; // tickets beyond the slots
  std::uint64_t max_num_queued_tokens = 1 << 18; // their total estimate
  schedule::scheduling_policy scheduling_policy = schedule::scheduling_policy::fcfs;
  bool enable_prefix_caching = true; // KV of equal prefixes is computed once
  bool async_scheduling = true;      // run-ahead: see scheduler::next
  // Draft tokens per decoding row; 0: none. None either for a model with recurrent states.
  std::uint32_t num_speculative_tokens = 0;
  std::uint32_t speculative_disable_by_batch_size = 0; // no drafts while so many run; 0: always
  lookup_config lookup;                                // how draft tokens are found
  baton::pooling pooling = baton::pooling::mean;       // pooling of embeddings
  bool use_job_ticket = false;                         // no queue: a free slot now, or a refusal
  std::vector<token_id> eos_ids;                       // end-of-sequence tokens of the model
  ticket_id first_ticket{1};                           // above all tickets of earlier incarnations
  std::uint64_t ticket_step = 1;                       // from one ticket to the next
  std::chrono::milliseconds retry_after{1000};         // the minimum, for retryable refusals
  std::chrono::milliseconds submit_timeout{10'000};    // from granted to admit
  std::chrono::milliseconds queue_deadline{60'000};    // from granted to the first slot; 0: none
  std::chrono::milliseconds recovery_timeout{60'000};  // without a pipeline; 0: none
  // The model may be unloaded: then requests wait for it, at most this long. Nothing: requests are
  // refused until the pipeline has been up.
  std::optional<std::chrono::milliseconds> load_timeout;
  // A ticket without a listener runs on for `detach_grace`, because its gateway or client may
  // return. After that a resumable ticket is suspended, without slot and blocks, until
  // `resume_window` has passed since it was orphaned.
  std::chrono::milliseconds detach_grace{5'000};
  std::chrono::milliseconds resume_window{300'000};
  std::uint32_t max_num_parked_reqs = 256; // the oldest one is dropped
};

// Choices of one ticket: OpenAI's bound on `n`.
inline constexpr std::uint32_t choices_max = 128;
} // namespace baton::schedule
