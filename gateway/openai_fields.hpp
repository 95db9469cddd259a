// The fields of one generation request, wherever they stand: the body of a POST or a WebSocket
// `start` message. Used by openai_request.cpp and websocket_messages.cpp.
#pragma once

#include "gateway/json_reader.hpp"
#include "gateway/openai_request.hpp"

namespace baton::gateway {

// Asks the reader for every field of the API and finishes it. A missing seed is drawn from
// std::random_device. `source` is the text of the object that the fields are of.
result<openai_generate> read_generation(field_reader& fields, std::string_view source,
                                        openai_api api, const request_limits& limits);

// The same for /tokenize and /detokenize.
result<tokenize_call> read_tokenize(field_reader& fields, const request_limits& limits);
result<detokenize_call> read_detokenize(field_reader& fields, const request_limits& limits);

// Parts that /tokenize shares. Both keep the first mistake in the reader.
chat_prompt read_messages(field_reader& fields, const request_limits& limits);
std::string read_model(field_reader& fields);
std::vector<token_id> read_ids(field_reader& fields, std::string_view name, const json& array,
                               std::size_t count_max);

} // namespace baton::gateway
