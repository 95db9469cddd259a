// Answers in the format of OpenAI's Responses API: the response object and its typed events. Both
// depend only on the pieces of the answer's text. So a stored response repeats the same events with
// the same numbers. Pure.
#pragma once

#include "gateway/api/openai/calls/answer_parser.hpp"
#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/responses/responses_request.hpp"
#include "gateway/request/response_writer.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// The answer so far.
class answer_log {
public:
  // An empty chunk is no piece. Requires: failure_of(c) is nothing.
  void add(const chunk& c);
  std::size_t size() const noexcept { return ends_.size(); }
  // The piece as a chunk; the last one has the finish.
  chunk piece(std::size_t index) const;
  bool has_ended() const noexcept { return last_.finish != finish::none; }
  std::size_t bytes() const noexcept { return text_.size() + ends_.size() * sizeof ends_.front(); }

private:
  std::string text_;
  struct piece_end {
    std::uint32_t bytes = 0, tokens = 0; // of text_, and of the output
  };
  std::vector<piece_end> ends_;
  chunk last_; // without its text: token counts and the finish
};

// For a background response it encodes where another gateway can resume the answer
// (response_position). Otherwise only the store can resolve it.
std::string response_id(const response_shape& shape, const reply_identity& who);
// Nothing if the id has another format.
std::optional<stream_position> response_position(std::string_view id);
bool can_be_taken_up(const response_shape& shape) noexcept;
// The answer as the next message of its conversation: its text and its calls.
chat_message answer_message(const response_shape& shape, const reply_identity& who,
                            const answer_log& log);
// {"id","object":"response",...} in its current state. `failure`: the reason if it failed.
std::string response_body(const response_shape& shape, const reply_identity& who,
                          const answer_log& log, const std::optional<error>& failure);

// Called once with a complete answer, before the client sees its end.
using keep_answer = std::function<void(const reply_identity& who, answer_log log)>;

class response_unary final : public unary_writer {
public:
  response_unary(response_shape shape, keep_answer keep)
      : shape_(std::move(shape)), keep_(std::move(keep)) {}
  void add(chunk c) override { log_.add(c); }
  bool is_complete() const noexcept override { return log_.has_ended(); }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  response_shape shape_;
  keep_answer keep_; // may be null
  answer_log log_;
};

// `event: TYPE` and `data: {"type","sequence_number",...}`, numbered from 0. The last one is
// exactly one of response.completed, .incomplete and .failed.
class response_events final : public stream_writer {
public:
  // Events up to number `after` are not written: the client has them.
  response_events(response_shape shape, reply_identity who, keep_answer keep = nullptr,
                  std::optional<std::uint64_t> after = std::nullopt);
  // Writes the events before any text; `add` and `fail` call it too.
  void begin(std::string& out);
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // it keeps its id
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

  nlohmann::ordered_json object() const;
  chat_message message() const;

private:
  using ordered = nlohmann::ordered_json;
  enum class item_kind : std::uint8_t { none, reasoning, message, call };

  void emit(std::string& out, std::string_view type, ordered body);
  void emit_delta(std::string& out, std::string_view type, std::string_view text);
  void add_text(item_kind kind, std::string_view text, std::string& out);
  void add_part(const call_delta::part& part, std::string& out);
  void open_text(item_kind kind, std::string& out);
  void open_call(const call_delta::part& part, std::string& out);
  void close_item(std::string& out);
  void take(const call_delta& what, std::string& out);
  ordered item(std::string_view status) const; // the open one
  ordered text_part() const;

  response_shape shape_;
  reply_identity who_;
  keep_answer keep_;
  std::uint64_t from_ = 0; // number of the first event to write
  std::uint64_t number_ = 0;
  answer_log log_; // only for `keep_`
  answer_parser parser_;
  std::vector<ordered> items_; // completed items
  item_kind open_ = item_kind::none;
  std::string item_id_;
  std::string text_; // of the open item: message text or arguments
  std::string name_; // of the function in the open call
  std::string call_id_;
  std::string_view status_;
  std::optional<error> failure_;
  token_usage usage_;
  bool has_begun_ = false;
  bool has_ended_ = false;
};

} // namespace baton::gateway
