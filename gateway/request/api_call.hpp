// A route's handler turns a call into a reply, or into a parsed request with the writer of its
// answer and its API's style of errors. There is one struct for each kind of exchange, not for each
// API. Handlers build them; gateway/http carries them out. Pure.
#pragma once

#include "gateway/base/stream_position.hpp"
#include "gateway/base/streams.hpp"
#include "gateway/request/field_names.hpp"
#include "gateway/request/response_writer.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace baton::gateway {

// A request to a language model, answered whole or as a stream.
struct generation_call {
  // The requests to open. All name the same model and draw the same number of choices. The client
  // gets their answers together, or the first error.
  std::vector<generate> requests{};
  std::vector<field_names>
      client_names{}; // the client's field names: of each request, or one for all
  bool add_generation_prompt = true;
  bool can_resume = false;                 // the client can continue its stream
  std::optional<stream_position> resume{}; // continue there, instead of opening a new request
  // The writer. `model` is the name of the model that was opened.
  bool is_stream = false;
  std::function<std::unique_ptr<unary_writer>(const std::string& model)> whole{};
  std::function<std::unique_ptr<stream_writer>(const std::string& model, const reply_identity&)>
      events{};
  header_list event_headers{};
  std::string_view event_type = event_stream_type;      // other types have no comments
  std::string_view waiting = event_comment;             // between events, while none comes
  bool frames_itself = false;                           // the events are HTTP chunks already
  std::function<void(const reply_times&)> ended_well{}; // null: nothing to count
  // For the root, sent when the requests are opened; its answer is not awaited.
  std::optional<change_model> order{};
  // The style of errors.
  const api_family* family = nullptr;
  std::function<error(error)> reword{}; // of a refusal; null: unchanged
};

// A request that one message answers: of a tokenizer, or of the model repository.
struct message_call {
  std::variant<tokenize, detokenize, change_model> request{};
  std::string model{};
  field_names client_names{}; // the client's field names
  // Nothing if the message is of another kind than the request asks for.
  std::function<std::optional<result<http_reply>>(const stream_event&)> writer{};
  const api_family* family = nullptr;
};

// A writer for a message_call that `Message` answers; `reply_of` makes the reply.
template <class Message, class Reply>
auto write_message(Reply reply_of) {
  return [reply_of =
              std::move(reply_of)](const stream_event& event) -> std::optional<result<http_reply>> {
    const auto* message = std::get_if<Message>(&event);
    if (!message) {
      return std::nullopt;
    }
    if (message->failure) {
      return *message->failure;
    }
    return reply_of(*message);
  };
}

// A request to a worker model.
struct worker_call {
  infer request{};
  std::unique_ptr<worker_writer> writer{};
  bool takes_comments = true; // between events of its answer
  std::function<void(const reply_times&)> ended_well{};
  const api_family* family = nullptr;
  std::function<error(error)> reword{}; // of a refusal; null: as it is
};

// A call of OpenAI's Responses API, which stores its answers (responses_request.hpp).
struct response_call;

struct websocket_upgrade {};

using api_call = std::variant<http_reply, generation_call, message_call, worker_call,
                              std::shared_ptr<response_call>, websocket_upgrade>;

// The request that was parsed, or the error in the style of its API.
template <class Call, class Then>
api_call with_parsed(result<Call> parsed, const api_family& family, Then then) {
  return parsed ? api_call(then(*std::move(parsed))) : api_call(family.failure(parsed.error()));
}

} // namespace baton::gateway
