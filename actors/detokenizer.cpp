#include "actors/detokenizer.hpp"

#include "actors/actor_faults.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>

namespace baton::actors {
namespace {

using pointer = detokenizer_actor::stateful_pointer<detokenizer_state>;

token_detail detail_of(const text::tokenizer& words, const sample& s) {
  token_detail d{{std::string(words.piece(s.token)), s.token, s.logprob}, {}};
  for (const auto& t : s.top)
    d.top.push_back({std::string(words.piece(t.token)), t.token, t.logprob});
  return d;
}

// Moves the tokens that `chunk`'s text covers out of the held back ones.
void cover(const text::tokenizer& words, choice_stream& stream, std::uint32_t covered, chunk& out) {
  out.count = covered - stream.covered;
  for (std::uint32_t i = 0; i < out.count; ++i) {
    const auto& s = stream.uncovered[i];
    out.ids.push_back(s.token);
    if (stream.wants_logprobs)
      out.details.push_back(detail_of(words, s));
  }
  stream.uncovered.erase(stream.uncovered.begin(), stream.uncovered.begin() + out.count);
  stream.covered = covered;
  out.index = covered;
}

// Exactly one chunk of a choice has finish != none, and it is the last: the scheduler says when.
void finish_stream(const tokens& m, choice_stream& stream, chunk& out) {
  out.finish = m.finish;
  out.output_tokens = m.tokens_total;
  out.failure = m.failure;
  if (!stream.stopped)
    return;
  out.finish = finish::stop; // also if the length or the end token came at the same time
  out.output_tokens = stream.stopped->token_index + 1;
  out.stop_text = stream.stop_texts[stream.stopped->stop];
  out.failure.reset();
}

result<choice_stream> begin(const text::tokenizer& words, const tokens& m) {
  text::stream_decoder_config config;
  config.stops = m.stopping.stop_texts;
  config.include_stop = m.stopping.include_stop_text;
  config.begins_text = !m.continues_prompt;
  auto decoder = text::stream_decoder::create(words, std::move(config));
  if (!decoder)
    return decoder.error();
  return choice_stream{m.request,
                       m.gateway,
                       m.prompt_tokens,
                       m.cached_tokens,
                       m.logprobs >= 0,
                       m.stopping.stop_texts,
                       std::move(*decoder),
                       {},
                       0,
                       std::nullopt};
}

chunk decode(const text::tokenizer& words, choice_stream& stream, const tokens& m) {
  chunk out;
  out.request = stream.request;
  out.ticket = m.ticket;
  out.choice = m.choice;
  out.prompt_tokens = stream.prompt_tokens;
  out.cached_tokens = stream.cached_tokens;
  std::vector<token_id> ids;
  for (const auto& s : m.samples)
    ids.push_back(s.token);
  stream.uncovered.insert(stream.uncovered.end(), m.samples.begin(), m.samples.end());
  auto text = stream.decoder.push(ids);
  out.text = std::move(text.text);
  auto covered = text.tokens_covered;
  stream.stopped = text.stopped;
  if (m.finish != finish::none) {
    auto rest = stream.decoder.finish();
    out.text += rest.text;
    covered = rest.tokens_covered;
  }
  cover(words, stream, covered, out);
  out.output_tokens = covered;
  if (m.finish != finish::none)
    finish_stream(m, stream, out);
  return out;
}

// A parcel above one of these goes on at once: a message keeps far below its bounds.
constexpr std::size_t parcel_bytes_max = 1u << 20;
constexpr std::size_t parcel_chunks_max = 1024;
static_assert(parcel_chunks_max <= limits::slices_max &&
              2 * (parcel_bytes_max + limits::chunk_bytes_max) <= limits::body_bytes_max);

std::size_t size_of(const chunk& c) {
  constexpr std::size_t entry_bytes = 64; // a token's text, id and logprob, with their offsets
  std::size_t entries = 4 + c.ids.size();
  for (const auto& d : c.details)
    entries += 1 + d.top.size();
  return c.text.size() + entries * entry_bytes;
}

void pass_on(pointer self, node_id gateway, detokenizer_state::parcel& p) {
  if (p.content.all.empty())
    return;
  self->send(self->state.config.peers.gateway(gateway), std::move(p.content));
  p = {};
}

void tell(pointer self, node_id gateway, chunk c) {
  auto& p = self->state.outgoing[gateway];
  p.size_bytes += size_of(c);
  p.content.all.push_back(std::move(c));
  if (p.size_bytes > parcel_bytes_max || p.content.all.size() >= parcel_chunks_max)
    pass_on(self, gateway, p);
}

// A choice that cannot be decoded at all: its one end, and word to the scheduler that nobody wants
// more of it.
void fail_choice(pointer self, const tokens& m, const error& why) {
  chunk last;
  last.request = m.request;
  last.ticket = m.ticket;
  last.choice = m.choice;
  last.prompt_tokens = m.prompt_tokens;
  last.cached_tokens = m.cached_tokens;
  last.finish = finish::failed;
  last.failure = why;
  tell(self, m.gateway, std::move(last));
  self->send(caf::actor_cast<scheduler_actor>(self->current_sender()),
             cancel{m.ticket, m.choice, cancel_reason::client_asked, 0, std::nullopt});
}

void on_tokens(pointer self, const tokens& m) {
  auto& s = self->state;
  sequence_id id{m.ticket, m.choice};
  auto scheduler = caf::actor_cast<scheduler_actor>(self->current_sender());
  auto stream = s.streams.find(id);
  if (m.begins && stream == s.streams.end()) {
    auto begun = begin(*s.config.tokenizer, m);
    if (!begun)
      return fail_choice(self, m, begun.error());
    stream = s.streams.emplace(id, std::move(*begun)).first;
  }
  if (stream == s.streams.end())
    return; // failed when it began
  bool was_stopped = stream->second.stopped.has_value();
  auto out = decode(*s.config.tokenizer, stream->second, m);
  bool is_last = m.finish != finish::none;
  if (!is_last && stream->second.stopped && !was_stopped)
    self->send(scheduler, cancel{m.ticket, m.choice, cancel_reason::stop_text,
                                 stream->second.stopped->token_index + 1, std::nullopt});
  if (is_last || !out.text.empty() || out.count > 0)
    tell(self, stream->second.gateway, std::move(out));
  if (is_last)
    s.streams.erase(stream);
}

} // namespace

detokenizer_actor::behavior_type detokenizer(pointer self, detokenizer_config config) {
  install_fault_handlers(self);
  self->state.config = std::move(config);
  return {
      [self](const step_tokens& m) {
        auto& s = self->state;
        for (const auto& t : m.all)
          on_tokens(self, t);
        for (auto& [gateway, p] : std::exchange(s.outgoing, {}))
          pass_on(self, gateway, p);
      },
  };
}

} // namespace baton::actors
