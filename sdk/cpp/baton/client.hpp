// Client of a Baton gateway's ZeroMQ door: generate, stream, cancel, chat, infer, models.
//
//   auto client = baton::client::connect("tcp://127.0.0.1:8002");
//   auto stream = client->generate({.model = "smollm2", .input = "Once upon a time"});
//   while (auto chunk = stream->next(5s); chunk && *chunk) fmt::print("{}", (*chunk)->text);
//
// One socket and one thread behind each client; all functions may be called from any thread. A lost
// door is greeted again for reconnect_timeout: open streams go on where they were, and calls wait.
// Only then they end with link_down; connect again then.
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
  std::chrono::milliseconds reconnect_timeout{30000}; // 0: a lost door ends what is open
  std::chrono::milliseconds call_timeout{30000};      // models(), tokenize() ...
  std::chrono::milliseconds heartbeat_interval{1000}; // the door's bound of silence is five of them
  std::chrono::milliseconds silence_max{5000};        // a door silent for longer is gone
  std::string name = "baton-client";                  // shown in the cluster's logs
  std::string api_key = {};                           // where the gateway asks for one
};

// The text of one choice, all of it.
struct answer {
  std::uint32_t choice = 0;
  std::string text;
  baton::finish finish = finish::none;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0; // of the prompt, found in the prefix cache
};

// The chunks of one request, of all its choices. Dropping it cancels what is not finished.
class stream {
public:
  stream(std::shared_ptr<sdk::connection> connection, std::uint64_t request, std::uint32_t choices);
  ~stream();
  stream(stream&&) noexcept = default;
  stream& operator=(stream&& other) noexcept;

  // The next chunk; nothing once every choice has had its finish. A chunk with finish::failed tells
  // why in `failure`. Errors: deadline_exceeded (nothing came in time: ask again), the door's
  // refusal, link_down. After another error than deadline_exceeded the stream is over.
  result<std::optional<chunk>> next(std::chrono::milliseconds deadline);

  // Asks the door to end all choices; their last chunks (finish::cancelled) still come.
  void cancel();

  // None before the first chunk.
  ticket_id ticket() const;

private:
  std::shared_ptr<sdk::connection> connection_;
  std::uint64_t request_ = 0;
  std::uint32_t choices_open_ = 0;
};

// The pieces of an answer to `infer`. Dropping it cancels what is not finished.
class pieces {
public:
  pieces(std::shared_ptr<sdk::connection> connection, std::uint64_t request);
  ~pieces();
  pieces(pieces&&) noexcept = default;
  pieces& operator=(pieces&& other) noexcept;

  // The next piece; nothing behind the last one. Errors: deadline_exceeded (nothing came in time:
  // ask again), the model's failure, the door's refusal, link_down (which within an answer is for
  // good: the rest of it cannot be asked for). After another error than deadline_exceeded it is
  // over.
  result<std::optional<inferred>> next(std::chrono::milliseconds deadline);
  bool is_open() const noexcept { return is_open_; } // it had neither its last piece nor an error

private:
  std::shared_ptr<sdk::connection> connection_;
  std::uint64_t request_ = 0;
  bool is_open_ = true;
};

class client {
public:
  // Errors: link_down (nobody answers), what the door refuses hello with, bad_config (endpoint).
  static result<client> connect(const std::string& endpoint, const client_options& options = {});

  // `request.request` is chosen by the client. With what a token is drawn is as the request has it;
  // of the fields that `request.unspecified` names, the model's defaults are taken
  // (all_sampling_fields). Errors: those of check_limits; the door's refusal comes with the first
  // next().
  result<stream> generate(baton::generate request);
  // Waits for all choices. Errors: those of stream::next, and the failure of a choice. A choice
  // that ended otherwise is an answer.
  result<std::vector<answer>> complete(baton::generate request, std::chrono::milliseconds deadline);
  // A conversation in, the assistant's answer out, drawn with the model's defaults; max_tokens 0:
  // theirs, else all that the context leaves.
  result<answer> chat(std::string model, chat_prompt messages, std::uint32_t max_tokens,
                      std::chrono::milliseconds deadline);

  // A worker model, with tensors or one body; or a language model, with the tensors of Triton's
  // vLLM backend (docs/apis/workers/other-models.md). `request.request` is chosen by the client. A
  // worker may be given a request twice, if the first one ends before it has said anything. Errors:
  // those of check_limits; the door's refusal comes with the first next().
  result<pieces> infer_stream(baton::infer request);
  // An answer in one piece; `deadline` is of all of it. Errors: those of pieces::next;
  // invalid_value: it has several pieces.
  result<inferred> infer(baton::infer request, std::chrono::milliseconds deadline);

  // Errors of the rest: the door's, deadline_exceeded after call_timeout, link_down.
  result<std::vector<model_card>> models();
  result<tokenized> tokenize(prompt input, bool add_generation_prompt = true);
  result<std::string> detokenize(std::vector<token_id> ids);
  result<cluster_status> status();

  bool is_open() const; // false once the door is lost for good

private:
  client(std::shared_ptr<sdk::connection> connection, client_options options)
      : connection_(std::move(connection)), options_(std::move(options)) {}
  template <class Answer>
  result<Answer> call(message question);

  std::shared_ptr<sdk::connection> connection_;
  client_options options_;
};

} // namespace baton
