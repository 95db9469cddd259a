// Working memory that encode calls reuse. Used by one thread at a time.
#pragma once

#include "runtime/text/bpe/large_pages.hpp"
#include "runtime/text/bpe/piece_cache.hpp"
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"
#include "schema/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::text {

// Longest text of one call. A million tokens of prose, more than any context, take about 5 MB. A
// run of one letter this long needs some 250 MB while it is merged.
inline constexpr std::size_t encode_bytes_max = std::size_t{10} << 20U;

class encode_scratch {
public:
  explicit encode_scratch(std::size_t cached_pieces = piece_cache::slots_default)
      : cache_(cached_pieces) {}

  // Pairs and characters looked up so far. Encoding time is proportional to it, so tests can
  // compare work with the text's length without a clock.
  std::uint64_t steps() const noexcept { return steps_; }

private:
  friend class tokenizer;
  friend class byte_level_bpe;
  friend class sentencepiece_bpe;
  friend class unigram;

  piece_cache cache_;
  std::uint64_t vocabulary_ = 0; // whose ids are cached
  std::uint64_t steps_ = 0;
  std::vector<text_range> pieces_;
  large_vector<token_id> symbols_;
  std::vector<token_id> word_ids_;
};

} // namespace baton::text
