// Converts sampled ids to streamed text: detokenizer, then stop strings, then whole tokens. The
// emitted text is always that of a whole number of tokens. Where each token ends depends only on
// the ids, not on their grouping, so a stream can resume after any token, in any process. One per
// choice of a ticket, owned by the detokenizer actor.
//
//   `push(ids)` -> [detokenizer: whole characters] -> [stop_matcher: nothing of a stop string] ->
//   [tokens whose text is complete] -> text
#pragma once

#include "runtime/text/stream/detokenizer.hpp"
#include "runtime/text/stream/stop_matcher.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton::text {

struct stream_decoder_config {
  bool skip_special = true;       // control tokens have no text
  std::vector<std::string> stops; // stop strings
  bool include_stop = false;      // the stop string is part of the text
  std::uint32_t min_tokens = 0;   // as vLLM: a stop string that ends in the text of the first
                                  // min_tokens tokens is none
  bool begins_text = true;        // false: the rest of a text; see detokenizer
  std::vector<token_id> shown{};  // control tokens that have text nevertheless
};

struct stop_hit {
  std::size_t stop;          // index into config.stops
  std::uint32_t token_index; // of the token that completed it, from the first one pushed
  friend bool operator==(const stop_hit&, const stop_hit&) = default;
};

struct decoded {
  std::string text;             // to be sent now; UTF-8, often empty
  std::uint32_t tokens_covered; // tokens 0 .. tokens_covered - 1 have no pending text
  std::optional<stop_hit> stopped;
  std::vector<std::size_t> ends; // in `text`, of the newly covered tokens
};

class stream_decoder {
public:
  // Requires: `tokenizer` outlives this object. Errors: invalid_value (a stop string).
  static result<stream_decoder> create(const tokenizer& tokenizer, stream_decoder_config config);

  // Tokens after the one that completed a stop string are ignored; later results repeat `stopped`.
  decoded push(std::span<const token_id> ids);
  // Ends the sequence: returns the held-back text. Covers all tokens.
  decoded finish();

private:
  stream_decoder(detokenizer decoder, stop_matcher stops, std::uint32_t min_tokens)
      : detokenizer_(std::move(decoder)), stops_(std::move(stops)), tokens_min_(min_tokens) {}

  void push_one(token_id id);
  void send(std::string_view decided);
  decoded answer();

  detokenizer detokenizer_;
  stop_matcher stops_;
  std::uint32_t tokens_min_;
  std::string ready_;                  // past the stop matcher, of uncovered tokens
  std::uint64_t given_bytes_ = 0;      // size of the emitted text
  std::uint64_t decided_bytes_ = 0;    // bytes that left the detokenizer
  std::uint32_t tokens_ = 0;           // pushed and not ignored
  std::uint32_t tokens_undecided_ = 0; // the last ones: some of their bytes are pending
  std::uint32_t tokens_covered_ = 0;
  std::deque<std::uint64_t> ends_; // decided_bytes_ at which each token is whole, of those from
                                   // tokens_covered_ up to the undecided ones
  std::optional<stop_hit> stopped_;
};

} // namespace baton::text
