// The answers that take time: generation, whole or as server-sent events, and the tokenizer's
// services. Called by http_session with a typed request; writes to its connection. Heavy: Asio.
#pragma once

#include "gateway/http_connection.hpp"

namespace baton::gateway {

// Each opens its request at the desk, brings the answer to the client, and returns what becomes of
// the connection. A client that hangs up meanwhile has its ticket cancelled at once.
asio::awaitable<after> answer(http_connection& client, openai_generate call);
asio::awaitable<after> answer(http_connection& client, tgi_generate call);
asio::awaitable<after> answer(http_connection& client, tokenize_call call);
asio::awaitable<after> answer(http_connection& client, detokenize_call call);

} // namespace baton::gateway
