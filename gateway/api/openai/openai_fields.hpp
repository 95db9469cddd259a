// The fields of one generation request, wherever they stand: the body of a POST or a WebSocket
// `start` message. Used by openai_request.cpp and websocket_messages.cpp.
#pragma once

#include "gateway/api/openai/openai_request.hpp"
#include "gateway/base/json_reader.hpp"

namespace baton::gateway {

inline constexpr std::size_t label_bytes_max = 1024;            // user and the like
inline constexpr std::size_t salt_bytes_max = 256;              // enough for any hash
inline constexpr std::size_t description_bytes_max = 64u << 10; // of a function, of a schema

// Asks the reader for every field of the API and finishes it. A missing seed is drawn from
// std::random_device. `source` is the text of the object that the fields are of.
result<openai_generate> read_generation(field_reader& fields, std::string_view source,
                                        openai_api api, const request_limits& limits);

// A limit of -1 is none, to llama.cpp's clients of OpenAI's routes. To vLLM's, TorchServe's and
// Triton's own it is a mistake. Errors: invalid_value. Requires: an object.
result<void> refuse_no_limit(const json& body, const request_limits& limits);

// The same for /tokenize and /detokenize.
result<tokenize_call> read_tokenize(field_reader& fields, std::string_view source,
                                    const request_limits& limits);
result<detokenize_call> read_detokenize(field_reader& fields, const request_limits& limits);

// Parts that others share. All keep the first mistake in the reader.
chat_prompt read_messages(field_reader& fields, const request_limits& limits);
std::string read_model(field_reader& fields);
// "seed". A request with a name draws the same when it is asked again, any other one at random.
// `signed_seed`: of vLLM and llama.cpp, where -1 says the same as leaving it out; TGI's has no
// sign.
enum class seed_kind : std::uint8_t { signed_seed, unsigned_seed };
std::uint64_t read_seed(field_reader& fields, const std::string& request_id,
                        seed_kind kind = seed_kind::signed_seed);
// "stop": a text, or several.
void read_stop_texts(field_reader& fields, stopping& out);
std::vector<token_id> read_ids(field_reader& fields, std::string_view name, const json& array,
                               std::size_t count_max);

} // namespace baton::gateway
