// Token by token through detokenizer and stop_matcher; see stream_decoder.hpp.
#include "runtime/text/stream_decoder.hpp"

#include "schema/ensure.hpp"

#include <utility>

namespace baton::text {

result<stream_decoder> stream_decoder::create(const tokenizer& words,
                                              stream_decoder_config config) {
  auto stops = stop_matcher::create(std::move(config.stops), config.include_stop);
  if (!stops)
    return stops.error();
  return stream_decoder(detokenizer(words, config.skip_special, config.begins_text),
                        std::move(*stops));
}

decoded stream_decoder::push(std::span<const token_id> ids) {
  std::string text;
  for (const token_id id : ids) {
    if (stopped_)
      break;
    push_one(id, text);
  }
  return answer(std::move(text));
}

decoded stream_decoder::finish() {
  std::string text;
  if (!stopped_) {
    std::string decided;
    detokenizer_.finish(decided);
    for (; tokens_undecided_ > 0; --tokens_undecided_)
      ends_.push_back(decided_bytes_ + decided.size());
    send(decided, text);
  }
  if (!stopped_)
    stops_.finish(text);
  return answer(std::move(text));
}

void stream_decoder::push_one(token_id id, std::string& text) {
  std::string decided;
  const std::size_t bytes = detokenizer_.push(id, decided);
  ++tokens_;
  ++tokens_undecided_;
  // Pending bytes are the last ones pushed: if this token has that many, no earlier one has any
  // left, and if there are none, this one is whole as well.
  const std::size_t pending = detokenizer_.pending_bytes();
  const std::uint32_t still_undecided = pending == 0 ? 0 : pending <= bytes ? 1 : tokens_undecided_;
  for (; tokens_undecided_ > still_undecided; --tokens_undecided_)
    ends_.push_back(decided_bytes_ + decided.size());
  send(decided, text);
}

void stream_decoder::send(std::string_view decided, std::string& text) {
  decided_bytes_ += decided.size();
  if (const auto stop = stops_.push(decided, text))
    stopped_ = stop_hit{*stop, tokens_ - 1};
}

decoded stream_decoder::answer(std::string text) {
  if (stopped_) {
    tokens_covered_ = tokens_;
    ends_.clear();
    return {std::move(text), tokens_covered_, stopped_};
  }
  const std::uint64_t sent = decided_bytes_ - stops_.held_bytes();
  for (; !ends_.empty() && ends_.front() <= sent; ends_.pop_front())
    ++tokens_covered_;
  ENSURE(tokens_covered_ + ends_.size() + tokens_undecided_ == tokens_,
         "{} covered, {} held and {} undecided of {} tokens", tokens_covered_, ends_.size(),
         tokens_undecided_, tokens_);
  return {std::move(text), tokens_covered_, std::nullopt};
}

} // namespace baton::text
