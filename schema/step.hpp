// One step of the pipeline: the data between stages, and its result. Part of messages.hpp.
#pragma once

#include "schema/error.hpp"
#include "schema/ids.hpp"
#include "schema/payload.hpp"
#include "schema/sampling.hpp"

#include <optional>
#include <vector>

namespace baton {

// Consecutive positions of one sequence within a micro_batch.
struct slice {
  sequence_id sequence;
  std::uint32_t position = 0; // of its first row, absolute
  std::uint32_t rows = 0;
  bool samples = false;            // its last row draws a token
  std::vector<block_index> blocks; // KV blocks covering positions [0, position + rows)
  // The number of last rows that are draft tokens. A token is drawn behind each of them as well, to
  // verify the next draft token. Requires: samples.
  std::uint32_t drafts = 0;
  // If the model has recurrent layers: the slot with the state before the first row, and the slot
  // for the state after the last one. Numbered from 1; 0 is the zero state, of position 0. The step
  // changes no other slot, so it can be redone as long as `state_from` is kept.
  std::uint32_t state_from = 0;
  std::uint32_t state_to = 0;

  std::uint32_t draws() const noexcept { return samples ? 1 + drafts : 0; }
  friend bool operator==(const slice&, const slice&) = default;
};

struct token_count {
#include "schema/members/token_count.inc"
  friend bool operator==(const token_count&, const token_count&) = default;
};

// The last stage's input for drawing one token. A function of the sequence log, so a redone step
// draws the same token.
struct draw {
  std::uint32_t token_index = 0; // of the token to draw, in the output; counter of the generator
  sampling_params sampling;
  std::vector<token_id> banned;     // ids that are not allowed here (end tokens before min_tokens)
  std::vector<token_count> history; // only if sampling.needs_history()
  std::vector<token_id> output;     // ids drawn before; only if sampling.constraint
  token_id previous = 0;            // the id before; only if sampling.has_watermark()
  friend bool operator==(const draw&, const draw&) = default;
};

// Placeholder for a token unknown when its micro_batch was formed: stage 0 fills it in.
inline constexpr token_id placeholder_token = -1;

// The source of that token: a draw of an earlier micro_batch of the same epoch.
struct feed {
#include "schema/members/feed.inc"
  friend bool operator==(const feed&, const feed&) = default;
};

// How a request's embedding is formed from the hidden states of its prompt, behind the final norm:
// their mean, the last or the first. `scores` computes the prompt's log probabilities instead.
enum class pooling : std::uint8_t { none = 0, mean = 1, last = 2, cls = 3, scores = 4 };

// For a slice without draws, whose sequence wants an embedding or prompt log probabilities. The
// intermediate result of earlier rows travels with the step, so the last stage keeps no state
// between steps.
struct pool {
  std::uint32_t slice = 0; // of the batch
  pooling how = pooling::mean;
  bool is_last = false;        // the prompt ends with its last row
  std::vector<float> before{}; // [hidden] result of the rows before; or empty
  token_id next = 0;           // scores: the token behind the last row
  std::uint32_t top = 0;       // scores: number of likeliest tokens to report for each
  friend bool operator==(const pool&, const pool&) = default;
};

// Copies a KV block within each stage: out to its swap space, or back.
struct block_copy {
#include "schema/members/block_copy.inc"
  friend bool operator==(const block_copy&, const block_copy&) = default;
};

// Scheduler to stage 0, then stage to stage. Self-contained: redoing it writes the same bits.
struct micro_batch {
  batch_id batch;
  epoch_id epoch;
  std::vector<slice> slices;
  std::vector<token_id> tokens;            // [rows], in the order of the slices
  std::vector<draw> draws;                 // the draws of each slice, in order
  std::vector<std::uint32_t> stage_micros; // compute time of the stages passed, µs
  payload activations;                     // [rows, hidden] float32; empty into stage 0
  baton::lease lease;
  std::vector<feed> feeds;        // one per placeholder_token, by row; empty behind stage 0
  std::vector<block_copy> copies; // made in this order, before the rows
  std::vector<pool> pools{};      // by slice

  std::uint32_t rows() const noexcept { return static_cast<std::uint32_t>(tokens.size()); }
};

struct token_logprob {
#include "schema/members/token_logprob.inc"
  friend bool operator==(const token_logprob&, const token_logprob&) = default;
};

struct sample {
#include "schema/members/sample.inc"
  friend bool operator==(const sample&, const sample&) = default;
};

// Result of a pool: the input of the next step, or for the last step the embedding, of length 1; or
// the scores.
struct pooled {
#include "schema/members/pooled.inc"
  friend bool operator==(const pooled&, const pooled&) = default;
};

// Last stage to scheduler: receiving it under the current epoch acknowledges a step. Also sent to
// stage 0, for the micro_batches that wait for its tokens.
struct sampled {
#include "schema/members/sampled.inc"
};

// Between rank 0 of a stage and its other ranks, if they do not share memory
// (runtime/collective/bus_collective.hpp): the values exchanged at a rendezvous.
struct group_values {
#include "schema/members/group_values.inc"
  payload values; // float32, little-endian
};

} // namespace baton
