// Typed answers to TorchServe's: a text, pieces of one as chunks of HTTP/1.1 (what its handlers
// send by send_intermediate_predict_response), OpenAI's events as such chunks, KServe's
// {"predictions"}. Pure.
//
// Its clients take each chunk for a piece (requests' iter_content(chunk_size=None)), so a piece is
// a chunk of its own, whatever goes out in one write. A stream of pieces that breaks off has no
// last chunk: TorchServe's own does not either, and to clients that is an error of its own
// (requests: ChunkedEncodingError, curl: exit status 18), where any text would be read as a piece.
#pragma once

#include "gateway/api/openai/openai_response.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/base/speaker.hpp"
#include "schema/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace baton::gateway {

struct torchserve_shape {
  torchserve_words speaks = torchserve_words::text; // text or json
  std::string echo{};                               // the answer begins with it
  bool has_logprobs = false;
};

std::string_view media_type_of(torchserve_words words) noexcept; // of an answer in pieces

class torchserve_whole final : public whole_speaker {
public:
  explicit torchserve_whole(torchserve_shape shape) : shape_(std::move(shape)) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return answer_.finish != finish::none; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  torchserve_shape shape_;
  chunk answer_; // all chunks as one
};

// A chunk of HTTP for each chunk of the answer that has a text. Requires: HTTP/1.1.
class torchserve_pieces final : public event_speaker {
public:
  explicit torchserve_pieces(torchserve_shape shape) : shape_(std::move(shape)) {}
  // What the chunk brings, if that is anything: a piece without HTTP's framing. Once for each.
  std::optional<std::string> take(const chunk& c);
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // nobody is told of the ticket
  void fail(const error&, std::string&) override { has_ended_ = is_broken_ = true; }
  bool has_ended() const noexcept override { return has_ended_; }
  bool has_failed() const noexcept override { return is_broken_; }
  bool is_broken() const noexcept override { return is_broken_; }

private:
  torchserve_shape shape_;
  std::size_t characters_ = 0; // so far
  bool has_ended_ = false;
  bool is_broken_ = false;
};

// OpenAI's events as TorchServe's handler for vLLM sends them: without ids, each a chunk of its
// own. One that fails ends with an error event, as OpenAI's.
class torchserve_events final : public event_speaker {
public:
  torchserve_events(const reply_shape& shape, const reply_identity& who, bool is_chunked)
      : events_(shape, who), is_chunked_(is_chunked) {}
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted& g) override { events_.moved_to(g); }
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return events_.has_ended(); }
  bool has_failed() const noexcept override { return has_failed_; }

private:
  void frame(const std::string& events, std::string& out) const;

  event_writer events_;
  bool is_chunked_;
  bool has_failed_ = false;
};

// KServe's of the first version: {"predictions"}, the texts of so many choices.
class torchserve_predictions final : public whole_speaker {
public:
  explicit torchserve_predictions(std::size_t count) : texts_(count), left_(count) {}
  void add(chunk c) override; // requires: its choice is one of them
  bool is_complete() const noexcept override { return left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::vector<std::string> texts_;
  std::size_t left_; // that have not ended
};

} // namespace baton::gateway
