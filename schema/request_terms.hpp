// The terms of a request: all that a client asks of an answer, whatever the form of its prompt. Nested
// in each message that carries the request, and in sequences of the scheduler; always copied whole.
#pragma once

#include "schema/sampling.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace baton {

struct request_terms {
  std::uint32_t choices = 1;
  sampling_params sampling{};
  stopping stop{};
  bool max_tokens_given = false;         // else: all that the context allows
  std::chrono::milliseconds deadline{0}; // 0: none
  std::string cache_salt{};              // KV is shared only between requests with the same salt
  bool wants_embedding = false;          // wants the prompt's embedding, and no tokens
  friend bool operator==(const request_terms&, const request_terms&) = default;
};

} // namespace baton
