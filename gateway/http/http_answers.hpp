// Carries out what a route's handler has parsed: opens the request and sends the answer, whole or
// as events. Each function returns what happens to the connection then. If the client hangs up, its
// ticket is cancelled at once. Heavy: Asio.
#pragma once

#include "gateway/http/http_connection.hpp"
#include "gateway/request/api_call.hpp"

#include <utility>

namespace baton::gateway {

asio::awaitable<after> answer_generation(http_connection& client, generation_call call);
asio::awaitable<after> answer_single(http_connection& client, message_call call);
asio::awaitable<after> answer_worker(http_connection& client, worker_call call); // http_inference
asio::awaitable<after> answer_response(http_connection& client,                  // http_responses
                                       std::shared_ptr<response_call> call);

// The same for a generation whose requests have just been opened.
asio::awaitable<after> answer_opened(http_connection& client, open_results open,
                                     const generation_call& call);
// The reply to a refusal, in the API's style of errors and with its status for overload.
http_reply refuse(http_connection& client, const api_family& family, const rejected& no);
// The same for a generation_call or worker_call whose answer has not begun.
template <class Call>
http_reply refuse(http_connection& client, const Call& call, rejected no) {
  if (call.reword) {
    no.reason = call.reword(std::move(no.reason));
  }
  return refuse(client, *call.family, no);
}
reply_identity identity_of(http_connection& client, const granted& g);
// The error reply for an event, while nothing of the answer has been sent.
std::optional<http_reply> refusal_of(http_connection& client, const api_family& family,
                                     const stream_event& e);
// Sends `lead`, the header of the answer, once before the first events. `is_framed`: the events are
// HTTP chunks already.
asio::awaitable<bool> write_events(http_connection& client, std::string& lead, std::string& events,
                                   bool is_last, bool is_framed = false);

} // namespace baton::gateway
