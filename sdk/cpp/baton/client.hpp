// Client of a Baton gateway's ZeroMQ API: generate, stream, cancel, chat, infer, models.
//
//   auto client = baton::client::connect("tcp://127.0.0.1:8002");
//   auto stream = client->generate({.model = "smollm2", .input = "Once upon a time"});
//   while (auto chunk = stream->next(5s); chunk && *chunk) fmt::print("{}", (*chunk)->text);
//
// One socket and one thread behind each client; all functions may be called from any thread. After
// a lost connection the client reconnects for reconnect_timeout: open streams continue where they
// were, and calls wait. Only then do they end with link_down; call connect again.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace baton {

namespace sdk {
class connection;
}

struct client_options {
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds reconnect_timeout{30000}; // 0: a lost connection ends all open calls
  std::chrono::milliseconds call_timeout{30000};      // models(), tokenize() ...
  std::chrono::milliseconds heartbeat_interval{1000}; // the server's silence limit is five of them
  std::chrono::milliseconds silence_max{5000};        // a server silent for longer is lost
  std::string name = "baton-client";                  // shown in the cluster's logs
  std::string api_key = {};                           // if the gateway requires one
};

// The complete text of one choice.
struct answer {
  std::uint32_t choice = 0;
  std::string text;
  baton::finish finish = finish::none;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0; // prompt tokens found in the prefix cache
};

// The chunks of one request, for all its choices. Destroying it cancels unfinished choices.
class stream {
public:
  stream(std::shared_ptr<sdk::connection> connection, std::uint64_t request, std::uint32_t choices);
  ~stream();
  stream(stream&&) noexcept = default;
  stream& operator=(stream&& other) noexcept;

  // The next chunk; nothing once every choice has finished. In a chunk with finish::failed,
  // `failure` holds the reason. Errors: deadline_exceeded (no chunk in time: call again), the
  // server's rejection, link_down. After any error but deadline_exceeded the stream is over.
  result<std::optional<chunk>> next(std::chrono::milliseconds deadline);

  // Asks the server to end all choices; their last chunks (finish::cancelled) still arrive.
  void cancel();

  // Empty before the first chunk.
  ticket_id ticket() const;

private:
  std::shared_ptr<sdk::connection> connection_;
  std::uint64_t request_ = 0;
  std::uint32_t choices_open_ = 0;
};

// The pieces of an answer to `infer`. Destroying it cancels an unfinished answer.
class pieces {
public:
  pieces(std::shared_ptr<sdk::connection> connection, std::uint64_t request);
  ~pieces();
  pieces(pieces&&) noexcept = default;
  pieces& operator=(pieces&& other) noexcept;

  // The next piece; nothing after the last one. Errors: deadline_exceeded (no piece in time: call
  // again), the model's failure, the server's rejection, link_down (final in the middle of an
  // answer). The rest of a lost answer cannot be requested again. After any error but
  // deadline_exceeded it is over.
  result<std::optional<inferred>> next(std::chrono::milliseconds deadline);
  // Neither the last piece nor an error has arrived.
  bool is_open() const noexcept { return is_open_; }

private:
  std::shared_ptr<sdk::connection> connection_;
  std::uint64_t request_ = 0;
  bool is_open_ = true;
};

class client {
public:
  // Errors: link_down (no answer), the server's reason for rejecting hello, bad_config (endpoint).
  static result<client> connect(const std::string& endpoint, const client_options& options = {});

  // The client sets `request.request`. A token is drawn with the sampling parameters of the
  // request; fields named in `request.unspecified` take the model's defaults (all_sampling_fields).
  // Errors: those of check_limits. The first next() returns the server's rejection.
  result<stream> generate(baton::generate request);
  // Waits for all choices. Errors: those of stream::next, and the failure of a choice. Any other
  // finish is an answer.
  result<std::vector<answer>> complete(baton::generate request, std::chrono::milliseconds deadline);
  // Sends a conversation and returns the assistant's answer, drawn with the model's defaults.
  // max_tokens 0: the model's default, else the rest of the context.
  result<answer> chat(std::string model, chat_prompt messages, std::uint32_t max_tokens,
                      std::chrono::milliseconds deadline);

  // Calls a worker model with tensors or one body, or a language model with the tensors of Triton's
  // vLLM backend (docs/apis/workers/other-models.md). The client sets `request.request`. A worker
  // may receive a request twice if the first attempt ends before its first piece. Errors: those of
  // check_limits. The first next() returns the server's rejection.
  result<pieces> infer_stream(baton::infer request);
  // Returns an answer of one piece; `deadline` covers all of it. Errors: those of pieces::next;
  // invalid_value: it has several pieces.
  result<inferred> infer(baton::infer request, std::chrono::milliseconds deadline);

  // Errors of the rest: the server's, deadline_exceeded after call_timeout, link_down.
  result<std::vector<model_card>> models();
  result<tokenized> tokenize(prompt input, bool add_generation_prompt = true);
  result<std::string> detokenize(std::vector<token_id> ids);
  result<cluster_status> status();

  bool is_open() const; // false once the connection is lost for good

private:
  client(std::shared_ptr<sdk::connection> connection, client_options options)
      : connection_(std::move(connection)), options_(std::move(options)) {}
  template <class Answer>
  result<Answer> call(message question);

  std::shared_ptr<sdk::connection> connection_;
  client_options options_;
};

} // namespace baton
