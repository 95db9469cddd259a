// Converts typed answers to text-generation-inference's JSON, whole or as a stream of events; also
// GET /info. Pure.
#pragma once

#include "gateway/api/tgi/tgi_request.hpp"
#include "gateway/config/config.hpp"
#include "gateway/request/response_writer.hpp"
#include "schema/error.hpp"
#include "schema/messages.hpp"

#include <string>
#include <vector>

namespace baton::gateway {

// [{"id","text","start","stop"}]: character ranges of `text` that a token overlaps.
std::string tgi_tokenize_body(const tokenized& answer, std::string_view text);
// GET /info, of the default model.
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
// The tokens of a chunk. A control token has its own name, others the text that they add.
std::vector<tgi_token> tokens_of(const chunk& c);

// {"generated_text","details"} of the likeliest answer; its details include the others. The x-*
// headers hold its times.
class tgi_unary final : public unary_writer {
public:
  explicit tgi_unary(tgi_shape shape)
      : shape_(std::move(shape)), answers_(shape_.best_of), answers_left_(shape_.best_of) {}
  void add(chunk c) override;
  bool is_complete() const noexcept override { return answers_left_ == 0; }
  http_reply reply(const reply_identity& who, const reply_times& when) const override;

private:
  std::uint32_t best() const; // an index

  tgi_shape shape_;
  std::vector<chunk> answers_; // one merged chunk per answer
  std::uint32_t answers_left_;
};

// data:{"index","token","top_tokens","generated_text","details"}: one event per token; the last has
// the whole text. A stop text may be reported only after the token that completes it. So if there
// are stop texts, a token is sent when the next one arrives.
class tgi_events final : public stream_writer {
public:
  explicit tgi_events(tgi_shape shape) : shape_(std::move(shape)) {}
  void add(const chunk& c, std::string& out) override;
  void moved_to(const granted&) override {} // the format has no ticket
  void fail(const error& e, std::string& out) override;
  bool has_ended() const noexcept override { return has_ended_; }

private:
  void add_token(const tgi_token& t, std::string& out);
  void add_end(const chunk& c, std::string& out);
  void flush(std::string& out);

  tgi_shape shape_;
  std::string text_;
  std::string open_; // an event without its end; empty: none
  token_id last_id_ = 0;
  std::uint32_t index_ = 0;
  bool has_ended_ = false;
};

} // namespace baton::gateway
