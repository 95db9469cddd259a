// Typed answers to text-generation-inference's JSON, whole or as a stream of events, and what it
// says of itself. Pure.
#pragma once

#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/base/speaker.hpp"
#include "gateway/config/config.hpp"
#include "schema/error.hpp"
#include "schema/messages.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

// [{"id","text","start","stop"}], in characters of `text`: those that a token has a part of.
std::string tgi_tokenize_body(const tokenized& answer, std::string_view text);
// GET /info, of the model that is served where none is named.
std::string tgi_info_body(const model_card& card, const gateway_config& config);
// x-compute-type and x-compute-characters, which are known before the answer.
header_list tgi_headers(const tgi_shape& shape);

// A token of an answer with its text.
struct tgi_token {
  token_id id = 0;
  std::string text;
  float logprob = 0;
  bool is_special = false;
  std::vector<logprob_entry> top;
};
// Those of a chunk. A control token has its own name, all others have what they add to the text.
std::vector<tgi_token> tokens_of(const chunk& c);

// {"generated_text","details"} of the likeliest answer, in whose details the others are; x-*
// headers say how long it took.
class tgi_whole final : public whole_speaker {
public:
  explicit tgi_whole(tgi_shape shape)
      : shape_(std::move(shape)), answers_(shape_.best_of), answers_left_(shape_.best_of) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return answers_left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::uint32_t best() const; // its place

  tgi_shape shape_;
  std::vector<chunk> answers_; // all chunks of one as one
  std::uint32_t answers_left_;
};

// data:{"index","token","top_tokens","generated_text","details"}, one event for each token; the
// last one has the whole text. A stop text may be told of behind the token that completes it: where
// there are some, a token waits for the next one.
class tgi_events final : public event_speaker {
public:
  explicit tgi_events(tgi_shape shape) : shape_(std::move(shape)) {}
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // nobody is told of the ticket
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  void add_token(const tgi_token& t, std::string& out);
  void add_end(const chunk& c, std::string& out);
  void flush(std::string& out);

  tgi_shape shape_;
  std::string text_;
  std::string open_; // an event that lacks its end; empty: none
  token_id last_id_ = 0;
  std::uint32_t index_ = 0;
  bool has_ended_ = false;
};

} // namespace baton::gateway
