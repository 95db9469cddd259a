// POST /v1/embeddings: OpenAI's body to typed requests, one for each input. Pure: bytes in, values
// out. A request of the engine's own kind carries each: it is queued, computed and recovered like a
// completion, and draws nothing.
//
// `dimensions` is refused: the first values of an embedding are one of their own only where a model
// was trained so (Matryoshka representations, arXiv 2205.13147), and none of a decoder for text is.
#pragma once

#include "gateway/base/json_reader.hpp"
#include "schema/messages.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

enum class embedding_format : std::uint8_t { numbers, base64 }; // of float32, little-endian

struct embedding_call {
  std::vector<generate> requests; // at least one, at most answers_max; in the order of `input`
  std::string model;              // as the client named it; empty: it did not
  embedding_format format = embedding_format::numbers;
};

// Errors: invalid_request, invalid_value, unsupported_parameter, with param.
result<embedding_call> parse_embeddings(std::string_view body, const request_limits& limits);
// The same of fields that are read already; asks the reader for every field there is.
result<embedding_call> read_embeddings(field_reader& fields, const request_limits& limits);

} // namespace baton::gateway
