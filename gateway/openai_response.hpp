// Typed answers to OpenAI's JSON, whole or as a stream of events. Pure. The frequent case, a delta
// of text, is written by hand; everything else goes through the JSON library.
#pragma once

#include "gateway/call_parser.hpp"
#include "gateway/openai_request.hpp"
#include "schema/error.hpp"
#include "schema/messages.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace baton::gateway {

// {"error":{"message","type","param","code"}}: OpenAI's shape, for every route.
std::string error_body(const error& e);
// `text` as a JSON string, quotes included. Requires valid UTF-8; what is not is replaced.
void append_json_string(std::string& out, std::string_view text);

std::string tokenize_body(const tokenized& answer, bool with_pieces);
std::string detokenize_body(const detokenized& answer);
std::string models_body(const std::vector<model_card>& cards,
                        const std::vector<std::string>& aliases);
// One entry of the list; `id` is the name the client used.
std::string model_body(const model_card& card, std::string_view id);

struct reply_identity {
  ticket_id ticket;
  std::int64_t created = 0; // seconds since 1970
  std::string fingerprint;
  std::uint64_t resume_key = 0;
};

struct token_usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0; // of the prompt, as the first choice found it
  std::uint64_t output_tokens = 0;
};

// An error that ends the answer, if this chunk carries one: failed, or cancelled by the server.
std::optional<error> failure_of(const chunk& c);
std::string_view finish_word(finish how) noexcept; // "stop", "length"

// Collects the chunks of a request that is answered in one piece.
class whole_reply {
public:
  explicit whole_reply(const reply_shape& shape);
  // Requires: failure_of(c) is nothing.
  void add(chunk c);
  bool is_complete() const noexcept { return choices_left_ == 0; }
  std::string body(const reply_identity& who) const;

private:
  // Which of those that were drawn are given, in this order.
  std::vector<std::uint32_t> given() const;

  struct choice_text {
    std::string text;
    std::vector<token_detail> details;
    finish how = finish::none;
    std::uint32_t output_tokens = 0;
  };
  reply_shape shape_;
  std::vector<choice_text> choices_;
  std::uint32_t choices_left_;
  token_usage prompt_; // without output tokens
};

// Writes server-sent events (WHATWG HTML, section 9.2). Each has the place behind it as its id
// (stream_position.hpp). What a chunk brings is one event, so no place lies within it. Exactly one
// terminal event: the last choice's finish (then usage, if asked for) or an error; `data: [DONE]`
// follows it.
class event_writer {
public:
  // `from`: what a client that has come back had before; else nothing. With calls the answer's
  // chunks come from its beginning all the same: what was had is read, and not written.
  event_writer(const reply_shape& shape, reply_identity who,
               const std::optional<stream_position>& from = std::nullopt);
  // Requires: failure_of(c) is nothing.
  void add(const chunk& c, std::string& out);
  // The stream has moved: it is gone on with by this ticket from here on. The answer keeps its id.
  void moved_to(const granted& g);
  // Any time before the end.
  void fail(const error& e, std::string& out);
  bool has_ended() const noexcept { return has_ended_; }

private:
  struct choice_state {
    bool has_role = false;
    bool owes_echo = false;
    bool has_finished = false;
    std::uint32_t output_tokens = 0;
    std::size_t text_characters = 0;
    std::optional<call_parser> calls{};
    std::uint64_t bytes_had = 0; // of text that is still to be read again
    std::uint32_t index_had = 0;
  };
  void begin_event(std::string& out) const;
  void add_role(const chunk& c, std::string& out);
  void add_text(const chunk& c, std::string& out);
  void add_calls(const chunk& c, std::string& out);
  void add_finish(const chunk& c, std::string& out);
  std::string delta_of(std::uint32_t choice, const call_delta& what) const;
  void add_usage(std::string& out);

  reply_shape shape_;
  reply_identity who_;
  std::string head_;      // {"id":...,"model":...,"system_fingerprint":...,"choices":[
  std::string tail_;      // ] and `"usage":null` if usage is to come
  stream_position place_; // behind the last event
  std::vector<choice_state> choices_;
  std::uint32_t choices_left_;
  token_usage prompt_; // without output tokens
  bool has_ended_ = false;
};

// The `logprobs` object of a choice. `characters_before`: text of the choice before these tokens.
std::string logprobs_json(openai_api api, const std::vector<token_detail>& details,
                          std::size_t characters_before);

} // namespace baton::gateway
