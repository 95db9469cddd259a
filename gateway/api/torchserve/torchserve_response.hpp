// Converts typed answers to TorchServe's: a text, pieces as HTTP/1.1 chunks (as its handlers send
// with send_intermediate_predict_response), OpenAI's events as such chunks, KServe's
// {"predictions"}. Pure.
//
// Clients treat each HTTP chunk as a piece (requests' iter_content(chunk_size=None)), so each piece
// is its own chunk. A stream that breaks off has no last chunk, as in TorchServe. Clients report
// that as an error (requests: ChunkedEncodingError, curl: exit status 18); an error text would be
// read as a piece.
#pragma once

#include "gateway/api/openai/reply/openai_response.hpp"
#include "gateway/api/torchserve/torchserve_request.hpp"
#include "gateway/request/response_writer.hpp"
#include "schema/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace baton::gateway {

struct torchserve_shape {
  torchserve_format speaks = torchserve_format::text; // text or json
  std::string echo{};                                 // prefix of the answer
  bool has_logprobs = false;
};

std::string_view media_type_of(torchserve_format format) noexcept; // of a streamed answer

class torchserve_unary final : public unary_writer {
public:
  explicit torchserve_unary(torchserve_shape shape) : shape_(std::move(shape)) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return answer_.finish != finish::none; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  torchserve_shape shape_;
  chunk answer_; // all chunks merged
};

// An HTTP chunk for each chunk of the answer that has text. Requires: HTTP/1.1.
class torchserve_pieces final : public stream_writer {
public:
  explicit torchserve_pieces(torchserve_shape shape) : shape_(std::move(shape)) {}
  // The piece for a chunk, without HTTP framing; nothing if it has none. Call it once per chunk.
  std::optional<std::string> take(const chunk& c);
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // the format has no ticket
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

// OpenAI's events as TorchServe's vLLM handler sends them: without ids, each its own HTTP chunk. A
// failure ends with an error event, as in OpenAI's API.
class torchserve_events final : public stream_writer {
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

  openai_stream events_;
  bool is_chunked_;
  bool has_failed_ = false;
};

// KServe v1: {"predictions"}, with one text per choice.
class torchserve_predictions final : public unary_writer {
public:
  explicit torchserve_predictions(std::size_t count) : texts_(count), left_(count) {}
  void add(chunk c) override; // requires: c.choice < count
  bool is_complete() const noexcept override { return left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::vector<std::string> texts_;
  std::size_t left_; // choices that have not ended
};

} // namespace baton::gateway
