// POST /v1/embeddings: converts OpenAI's body to typed requests, one for each input. Pure. Each is
// a normal engine request: queued, computed and recovered like a completion, but it generates
// nothing.
//
// `dimensions` is refused: a prefix of an embedding is valid only for models trained that way
// (Matryoshka representations, arXiv 2205.13147), and no text decoder is.
#pragma once

#include "gateway/request/json_reader.hpp"
#include "schema/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

enum class embedding_format : std::uint8_t { numbers, base64 }; // of float32, little-endian

struct embedding_call {
  std::vector<generate> requests; // at least one, at most answers_max; in `input` order
  std::string model;              // as in the client's request; empty: not given
  embedding_format format = embedding_format::numbers;
};

// Errors: invalid_request, invalid_value, unsupported_parameter, with param.
result<embedding_call> parse_embeddings(std::string_view body, const request_limits& limits);
// The same from a reader; reads every field of the API.
result<embedding_call> read_embeddings(field_reader& fields, const request_limits& limits);

} // namespace baton::gateway
