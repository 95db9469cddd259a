// Writes an answer of Ollama's API, whole or as lines of JSON. Pure.
//
//   { piece }   { piece } ...   { "done": true, counts, durations }      or, at any place: {
//   "error" }
//
// A call of a tool is one piece, sent when it is complete. Durations are nanoseconds of the
// gateway's clock; together they are total_duration:
//
//   read --load--> a step begins --prompt_eval--> first token --eval--> end
//
// Nothing is loaded: `load` is the time of the ticket, the template and the queue.
#pragma once

#include "gateway/api/ollama/ollama_request.hpp"
#include "gateway/api/openai/calls/answer_parser.hpp"
#include "gateway/request/answer_position.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// The clocks of the writers.
struct ollama_clock {
  reply_times::clock::time_point (*now)() = &reply_times::clock::now;
  std::chrono::system_clock::time_point (*date)() = &std::chrono::system_clock::now;
};

// "2026-11-27T12:00:00.123456789Z"
std::string rfc3339(std::chrono::system_clock::time_point at);

struct ollama_shape {
  ollama_route route = ollama_route::chat;
  reply_shape is;
  ollama_clock clock{};
};

// The answer to a request without messages or a prompt.
http_reply ollama_load_reply(const ollama_shape& shape, bool is_unload);

class ollama_unary final : public unary_writer {
public:
  explicit ollama_unary(ollama_shape shape)
      : shape_(std::move(shape)), parser_(shape_.is.calls, shape_.is.reads_reasoning) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return last_.finish != finish::none; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  ollama_shape shape_;
  answer_parser parser_;
  call_delta read_;
  std::vector<token_detail> details_;
  std::optional<reply_times::clock::time_point> first_; // token
  chunk last_;
};

// The last line of each chunk has an `id`, the stream position after it. A client that resumes
// there forgets the lines that it received after the last id.
class ollama_stream final : public stream_writer {
public:
  // `from`: the position that a resuming client has reached. The chunks still start at the
  // beginning: the old part is parsed and not written.
  ollama_stream(ollama_shape shape, reply_identity who,
                const std::optional<stream_position>& from = std::nullopt);
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted& g) override;
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  void take(const chunk& c, std::string_view text);
  void take(const call_delta& what);
  void give_call();
  void begin_line();
  void end_line();
  void add_text_line(std::string_view text, bool is_thinking = false);
  void add_line(const nlohmann::ordered_json& members);
  void end(const chunk& c);
  void flush(std::string& out);

  ollama_shape shape_;
  reply_identity who_;
  answer_position position_;
  answer_parser parser_;
  std::optional<call_delta::part> call_; // not complete yet
  std::string lines_;                    // of this chunk, each without its end
  nlohmann::ordered_json logprobs_ = nlohmann::ordered_json::array(); // for the next line
  std::optional<reply_times::clock::time_point> first_;               // token
  bool has_ended_ = false;
};

} // namespace baton::gateway
