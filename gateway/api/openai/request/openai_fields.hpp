// Reads the fields of one generation request, from the body of a POST or a WebSocket `start`
// message. Used by openai_request.cpp and websocket_messages.cpp.
#pragma once

#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/json_reader.hpp"

namespace baton::gateway {

inline constexpr std::size_t label_bytes_max = 1024;            // user and the like
inline constexpr std::size_t salt_bytes_max = 256;              // enough for any hash
inline constexpr std::size_t description_bytes_max = 64u << 10; // of a function, of a schema

// Reads every field of the API and finishes the reader. A missing seed comes from
// std::random_device. `source` is the text of the fields' object.
result<openai_generate> read_generation(field_reader& fields, std::string_view source,
                                        openai_api api, const request_limits& limits);

// Refuses a limit of -1. It means "no limit" on OpenAI routes for llama.cpp clients, but is invalid
// for vLLM's, TorchServe's and Triton's own APIs. Errors: invalid_value. Requires: an object.
result<void> refuse_no_limit(const json& body, const request_limits& limits);

// The same for /tokenize and /detokenize.
result<tokenize_call> read_tokenize(field_reader& fields, std::string_view source,
                                    const request_limits& limits);
result<detokenize_call> read_detokenize(field_reader& fields, const request_limits& limits);

// Shared parts. All keep the first error in the reader.
chat_prompt read_messages(field_reader& fields, const request_limits& limits);
std::string read_model(field_reader& fields);
// "seed". A request with a request_id always draws the same; any other draws at random.
// `signed_seed`: vLLM and llama.cpp, where -1 means unset; TGI's seed is unsigned.
enum class seed_kind : std::uint8_t { signed_seed, unsigned_seed };
std::uint64_t read_seed(field_reader& fields, const std::string& request_id,
                        seed_kind kind = seed_kind::signed_seed);
// "stop": a string or a list of strings.
void read_stop_texts(field_reader& fields, stopping& out);
std::vector<token_id> read_ids(field_reader& fields, std::string_view name, const json& array,
                               std::size_t count_max);

} // namespace baton::gateway
