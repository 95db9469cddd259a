// Converts typed answers to OpenAI's JSON, whole or as a stream of events. Pure. The frequent case,
// a text delta, is written by hand; the rest uses the JSON library.
#pragma once

#include "gateway/api/openai/calls/answer_parser.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/response_writer.hpp"
#include "schema/error.hpp"
#include "schema/messages.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

std::string tokenize_body(const tokenized& answer, bool with_pieces);
std::string detokenize_body(const detokenized& answer);
std::string models_body(const std::vector<model_card>& cards,
                        const std::vector<std::string>& aliases);
// One entry of the list; `id` is the name in the client's request.
std::string model_body(const model_card& card, std::string_view id);

struct token_usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0; // of the prompt, for its first choice
  std::uint64_t output_tokens = 0;
  std::uint64_t reasoning_tokens = 0; // of those
};

class openai_unary final : public unary_writer {
public:
  explicit openai_unary(const reply_shape& shape);
  void add(chunk c) override;
  bool is_complete() const noexcept override { return choices_left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;
  std::string body(const reply_identity& who) const;

private:
  // Indexes of the answers to return, in order.
  std::vector<std::uint32_t> given() const;

  struct choice_text {
    std::vector<token_detail> prompt{}; // the prompt's tokens, if requested
    answer_parser parser;
    call_delta read{}; // by it
    std::vector<token_detail> details{};
    std::vector<token_id> ids{};
    finish how = finish::none;
    std::uint32_t output_tokens = 0;
  };
  reply_shape shape_;
  std::vector<choice_text> choices_; // of all prompts
  std::uint32_t drawn_;              // per prompt
  std::uint32_t choices_left_;
  std::vector<token_usage> prompts_; // without output tokens
};

// An event's id is the stream position after it (stream_position.hpp). Streams of several prompts
// have no ids. A chunk becomes one event, so no position lies within it. The stream has exactly one
// terminal event: the last choice's finish (then usage, if requested) or an error; `data: [DONE]`
// follows it.
class openai_stream final : public stream_writer {
public:
  // `from`: the position that a resuming client has reached; else nothing. With tool calls, the
  // chunks still start at the beginning: the old part is parsed and not written.
  openai_stream(const reply_shape& shape, reply_identity who,
                const std::optional<stream_position>& from = std::nullopt);
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted& g) override; // the answer keeps its id
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  struct choice_state {
    bool has_role = false;
    bool owes_echo = false;
    bool owes_prompt_ids = false;
    std::vector<token_detail> prompt{}; // for the echo or its ids
    std::size_t echo_characters = 0;    // before the answer's text, if positions count them
    bool has_finished = false;
    std::uint32_t output_tokens = 0;
    std::size_t text_characters = 0;
    std::optional<answer_parser> parser{};
    std::uint64_t bytes_had = 0; // of old text still to be parsed
    std::uint32_t index_had = 0;
  };
  std::string echo_of(std::uint32_t choice) const;
  // The pending echo followed by this text; the same for logprobs, or "null".
  std::string text_behind_echo(const chunk& c) const;
  std::string logprobs_behind_echo(const chunk& c) const;
  void begin_event(std::string& out) const;
  // `further`: members of the event beside its choice.
  void end_event(const chunk& c, std::uint32_t output_tokens, std::string& out,
                 std::string_view further = {}) const;
  // The members of a choice that hold ids, if requested. The prompt's ids come once.
  std::string ids_of(std::uint32_t choice, std::span<const token_id> ids);
  std::string prompt_ids_of(std::uint32_t choice);
  void add_role(const chunk& c, std::string& out);
  void add_text(const chunk& c, std::string& out);
  void add_parsed(const chunk& c, std::string& out);
  void add_finish(const chunk& c, std::string& out);
  std::string delta_of(std::uint32_t choice, const call_delta& what) const;
  void add_usage(std::string& out);

  reply_shape shape_;
  reply_identity who_;
  std::string head_;         // {"id":...,"model":...,"system_fingerprint":...,"choices":[
  std::string tail_;         // `"usage":null` if usage follows, and the end
  stream_position position_; // after the last event
  std::vector<choice_state> choices_;
  std::uint32_t choices_left_;
  std::vector<token_usage> prompts_; // without output tokens
  bool has_ended_ = false;
};

} // namespace baton::gateway
