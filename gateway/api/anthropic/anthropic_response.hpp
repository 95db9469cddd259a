// Writes a message of Anthropic's API, whole or as a stream of events. Pure.
//
//   message_start  ping
//   { content_block_start  content_block_delta ...  content_block_stop }   what the model thinks,
//                                                                          a text or a call, each
//   message_delta  message_stop          or, at any place: error
//
// Source: https://platform.claude.com/docs/en/build-with-claude/streaming
#pragma once

#include "gateway/api/openai/calls/answer_parser.hpp"
#include "gateway/api/openai/request/openai_request.hpp"
#include "gateway/request/answer_position.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::gateway {

// Also sent while a stream waits.
inline constexpr std::string_view anthropic_ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

class anthropic_unary final : public unary_writer {
public:
  explicit anthropic_unary(const reply_shape& shape)
      : shape_(shape), parser_(shape.calls, shape.reads_reasoning) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return last_.finish != finish::none; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  reply_shape shape_;
  answer_parser parser_;
  call_delta read_;
  chunk last_;
};

// The events of one chunk end with an id, the stream position after them. A client that resumes
// there forgets the events that it received after the last id.
class anthropic_stream final : public stream_writer {
public:
  // `from`: the position that a resuming client has reached. The chunks still start at the
  // beginning: the old part is parsed and not written.
  anthropic_stream(const reply_shape& shape, reply_identity who,
                   const std::optional<stream_position>& from = std::nullopt);
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted& g) override; // the message keeps its id
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  enum class block_kind : std::uint8_t { none, thinking, text, call };

  void emit(std::string_view type, nlohmann::ordered_json body);
  void emit_delta(std::string_view lead, std::string_view text);
  void begin(const chunk& c);
  void open_block(block_kind kind, nlohmann::ordered_json block);
  void close_block();
  void take(const chunk& c, std::string_view text);
  void take(const call_delta& what);
  void end(const chunk& c);
  void flush(std::string& out);

  reply_shape shape_;
  reply_identity who_;
  answer_position position_;
  answer_parser parser_;
  std::string events_;      // of this chunk
  std::size_t last_at_ = 0; // in events_: the last event
  block_kind open_ = block_kind::none;
  std::uint32_t block_ = 0; // index of the open or the next block
  bool has_begun_;
  bool has_calls_ = false;
  bool has_ended_ = false;
};

} // namespace baton::gateway
