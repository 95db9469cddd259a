// The answers that take time: generation, whole or as server-sent events, and the tokenizer's
// services. Called by http_session with a typed request; writes to its connection. Heavy: Asio.
#pragma once

#include "gateway/base/response_writer.hpp"
#include "gateway/http/http_connection.hpp"

#include <functional>
#include <memory>

namespace baton::gateway {

// The answer to one request, in the words of its API.
struct response_context {
  api_family speaks = api_family::openai;
  bool is_stream = false;
  std::function<std::unique_ptr<unary_writer>()> whole;
  std::function<std::unique_ptr<stream_writer>(const reply_identity&)> events;
  header_list event_headers;
  std::string_view event_type = event_stream_type; // of others no line is known to be a comment
  bool frames_itself = false; // the speaker writes HTTP's chunks: nothing else may be one
  std::string busy_model;     // TorchServe's, in whose words a refusal for load has it
  std::function<void(const reply_times&)> ended_well; // none: nobody counts
};

reply_identity identity_of(http_connection& client, const granted& g);
// The error that an event means for a request of which nothing was sent yet.
std::optional<http_reply> refusal_of(http_connection& client, api_family speaks,
                                     const stream_event& e);
// `open` has been asked for just now.
asio::awaitable<after> generation_answer(http_connection& client, open_results open,
                                         response_context with);
// `lead` goes out before the events, once: the header of the answer. `is_framed`: the events are
// HTTP's chunks already.
asio::awaitable<bool> write_events(http_connection& client, std::string& lead, std::string& events,
                                   bool is_last, bool is_framed = false);

// Each opens its request at the desk, brings the answer to the client, and returns what becomes of
// the connection. A client that hangs up meanwhile has its ticket cancelled at once.
asio::awaitable<after> answer(http_connection& client, openai_generate call);
asio::awaitable<after> answer(http_connection& client, embedding_call call);
asio::awaitable<after> answer(http_connection& client, tgi_generate call);
asio::awaitable<after> answer(http_connection& client, vllm_generate call);
asio::awaitable<after> answer(http_connection& client, torchserve_generate call);
// All of them together, and the first that fails is the answer.
asio::awaitable<after> answer(http_connection& client, torchserve_batch call);
asio::awaitable<after> answer(http_connection& client, kserve_generate call);
asio::awaitable<after> answer(http_connection& client, tokenize_call call);
asio::awaitable<after> answer(http_connection& client, detokenize_call call);
asio::awaitable<after> answer(http_connection& client, worker_call call);
asio::awaitable<after> answer(http_connection& client, repository_call call);

} // namespace baton::gateway
