// Passes each token through detokenizer and stop_matcher; see stream_decoder.hpp.
#include "runtime/text/stream/stream_decoder.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <utility>

namespace baton::text {

result<stream_decoder> stream_decoder::create(const tokenizer& tokenizer,
                                              stream_decoder_config config) {
  auto stops = stop_matcher::create(std::move(config.stops), config.include_stop);
  if (!stops)
    return stops.error();
  return stream_decoder(
      detokenizer(tokenizer, config.skip_special, config.begins_text, std::move(config.shown)),
      std::move(*stops), config.min_tokens);
}

decoded stream_decoder::push(std::span<const token_id> ids) {
  for (const token_id id : ids) {
    if (stopped_)
      break;
    push_one(id);
  }
  return answer();
}

decoded stream_decoder::finish() {
  if (!stopped_) {
    std::string decided;
    detokenizer_.finish(decided);
    for (; tokens_undecided_ > 0; --tokens_undecided_)
      ends_.push_back(decided_bytes_ + decided.size());
    send(decided);
  }
  if (!stopped_)
    stops_.finish(ready_);
  return answer();
}

void stream_decoder::push_one(token_id id) {
  std::string decided;
  const std::size_t bytes = detokenizer_.push(id, decided);
  ++tokens_;
  ++tokens_undecided_;
  // Pending bytes are the last ones pushed. If this token has at least that many, all earlier
  // tokens are complete; with none pending, this one is too.
  const std::size_t pending = detokenizer_.pending_bytes();
  const std::uint32_t still_undecided = pending == 0 ? 0 : pending <= bytes ? 1 : tokens_undecided_;
  for (; tokens_undecided_ > still_undecided; --tokens_undecided_)
    ends_.push_back(decided_bytes_ + decided.size());
  send(decided);
}

void stream_decoder::send(std::string_view decided) {
  decided_bytes_ += decided.size();
  if (const auto stop = stops_.push(decided, ready_, /*may_end=*/tokens_ > tokens_min_))
    stopped_ = stop_hit{*stop, tokens_ - 1};
}

// A stop string may have cut the text: the remaining text is final and covers all tokens.
decoded stream_decoder::answer() {
  decoded out{{}, 0, stopped_, {}};
  const std::uint64_t sent = stopped_ ? UINT64_MAX : decided_bytes_ - stops_.held_bytes();
  const std::uint64_t ready_end = given_bytes_ + ready_.size();
  for (; !ends_.empty() && ends_.front() <= sent; ends_.pop_front()) {
    out.ends.push_back(std::min(ends_.front(), ready_end) - given_bytes_);
    ++tokens_covered_;
  }
  if (stopped_)
    for (; tokens_covered_ < tokens_; ++tokens_covered_)
      out.ends.push_back(ready_.size());
  ENSURE(stopped_ || tokens_covered_ + ends_.size() + tokens_undecided_ == tokens_,
         "{} covered, {} held and {} undecided of {} tokens", tokens_covered_, ends_.size(),
         tokens_undecided_, tokens_);
  const std::size_t whole = out.ends.empty() ? 0 : out.ends.back();
  out.text = ready_.substr(0, whole);
  ready_.erase(0, whole);
  given_bytes_ += whole;
  out.tokens_covered = tokens_covered_;
  return out;
}

} // namespace baton::text
