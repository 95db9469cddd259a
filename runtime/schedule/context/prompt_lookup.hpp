// Draft tokens without a draft model: the ids that followed the same n-gram earlier in the text
// (prompt lookup decoding, Saxena 2023; vLLM's n-gram speculator). Useful where answers repeat
// their prompt: code, extracts, corrections. Pure.
#pragma once

#include "schema/ids.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace baton::schedule {

struct lookup_config {
  std::size_t ngram_max = 4; // ids that must match: the longest match wins
  std::size_t ngram_min = 2;
  std::size_t window = 4096; // ids searched, from the end: bounds the work of a step
};

// Up to `count` ids that followed the latest earlier occurrence of the last ids; none if there is
// no occurrence. Requires: 0 < ngram_min <= ngram_max.
std::vector<token_id> look_up(std::span<const token_id> ids, std::size_t count,
                              const lookup_config& config = {});

} // namespace baton::schedule
