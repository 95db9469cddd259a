// What /v1/responses does that a chat does not: answers that are kept, made in the background, told
// again and cancelled. Called by http_session; writes to its connection. Heavy: Asio.
#pragma once

#include "gateway/http/http_connection.hpp"

namespace baton::gateway {

asio::awaitable<after> answer(http_connection& client, response_create call);
asio::awaitable<after> answer(http_connection& client, response_question question);

} // namespace baton::gateway
