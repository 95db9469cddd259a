#include "actors/detokenizer.hpp"

#include "actors/actor_faults.hpp"
#include "runtime/text/stream/call_style.hpp"
#include "runtime/text/stream/reasoning_style.hpp"
#include "schema/limits.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace baton::actors {
namespace {

using detokenizer_pointer = detokenizer_actor::stateful_pointer<detokenizer_state>;

// The control tokens with these texts.
void add_controls(const text::tokenizer& vocabulary, std::span<const std::string_view> texts,
                  std::vector<token_id>& to) {
  for (const auto text : texts)
    if (const auto id = vocabulary.special_id(text); id && vocabulary.is_control(*id))
      to.push_back(*id);
}

// The gateway reads an answer by these tokens, so they are part of its text (answer_parser.hpp).
std::vector<token_id> shown_in(const detokenizer_config& config, const tokens& m) {
  std::vector<token_id> out;
  if (m.reasoning != reasoning_format::none)
    add_controls(*config.tokenizer, text::row_of(m.reasoning).controls, out);
  if (m.stopping.shows_call_marks)
    add_controls(*config.tokenizer, text::row_of(config.calls).controls, out);
  return out;
}

token_detail detail_of(const text::tokenizer& vocabulary, std::span<const token_id> shown,
                       const sample& s) {
  const auto entry_of = [&](token_id token, float logprob) {
    const bool is_shown = std::find(shown.begin(), shown.end(), token) != shown.end();
    return logprob_entry{std::string(vocabulary.piece(token)), token, logprob,
                         vocabulary.is_control(token) && !is_shown};
  };
  token_detail d{entry_of(s.token, s.logprob), {}};
  for (const auto& t : s.top)
    d.top.push_back(entry_of(t.token, t.logprob));
  return d;
}

std::vector<token_id> ids_of(std::span<const sample> samples) {
  std::vector<token_id> out;
  for (const auto& s : samples)
    out.push_back(s.token);
  return out;
}

// Moves the tokens that the text covers from the held-back ones to the transcript.
void add_decoded(const text::tokenizer& vocabulary, choice_stream& stream,
                 const text::decoded& text) {
  const std::span covered = std::span(stream.uncovered).first(text.ends.size());
  std::vector<token_detail> details;
  if (stream.wants_logprobs)
    for (const auto& s : covered)
      details.push_back(detail_of(vocabulary, stream.shown, s));
  stream.text.add(text.text, text.ends, ids_of(covered), std::move(details));
  stream.uncovered.erase(stream.uncovered.begin(),
                         stream.uncovered.begin() + static_cast<std::ptrdiff_t>(covered.size()));
  stream.stopped = text.stopped;
}

void decode(const text::tokenizer& vocabulary, choice_stream& stream,
            std::span<const sample> samples) {
  stream.uncovered.insert(stream.uncovered.end(), samples.begin(), samples.end());
  add_decoded(vocabulary, stream, stream.decoder->push(ids_of(samples)));
}

// Tokens delivered by an earlier incarnation of the head are decoded again, but not sent.
result<choice_stream> begin(const detokenizer_config& from, const tokens& m) {
  const auto& vocabulary = *from.tokenizer;
  text::stream_decoder_config config;
  config.stops = m.stopping.stop_texts;
  config.include_stop = m.stopping.include_stop_text;
  config.min_tokens = m.stopping.min_tokens;
  config.begins_text = !m.continues_prompt;
  config.shown = shown_in(from, m);
  auto shown = config.shown;
  auto decoder = text::stream_decoder::create(vocabulary, std::move(config));
  if (!decoder)
    return decoder.error();
  choice_stream stream;
  stream.request = m.request;
  stream.gateway = m.gateway;
  stream.resume_key = m.resume_key;
  stream.prompt_tokens = m.prompt_tokens;
  stream.reasoning = m.reasoning;
  stream.begins_in_reasoning = m.begins_in_reasoning;
  stream.cached_tokens = m.cached_tokens;
  stream.prepare_micros = m.prepare_micros;
  stream.queue_micros = m.queue_micros;
  stream.wants_logprobs = m.logprobs >= 0;
  stream.shown = std::move(shown);
  stream.stop_texts = m.stopping.stop_texts;
  stream.decoder = std::move(*decoder);
  stream.sent = static_cast<std::uint32_t>(m.delivered.size());
  stream.prompt = m.prompt_scores;
  std::vector<sample> delivered;
  for (const token_id token : m.delivered)
    delivered.push_back({token, 0, {}});
  decode(vocabulary, stream, delivered);
  return stream;
}

// Exactly one chunk of a choice has finish != none, and it is the last: the scheduler decides when.
void finish_stream(const text::tokenizer& vocabulary, choice_stream& stream, const tokens& m) {
  add_decoded(vocabulary, stream, stream.decoder->finish());
  stream.decoder.reset();
  stream.end = ending{.finish = m.finish,
                      .output_tokens = m.tokens_total,
                      .stop_text = {},
                      .failure = m.failure,
                      .embedding = m.embedding};
  if (!stream.stopped)
    return;
  auto& end = *stream.end;
  end.finish = finish::stop; // even if the length limit or the end token coincided with it
  end.output_tokens = stream.stopped->token_index + 1;
  end.stop_text = stream.stop_texts[stream.stopped->stop];
  end.failure.reset();
}

// A larger parcel is sent at once, so that messages stay far below their bounds.
constexpr std::size_t parcel_bytes_max = 1u << 20;
constexpr std::size_t parcel_chunks_max = 1024;
static_assert(parcel_chunks_max <= limits::slices_max &&
              2 * (parcel_bytes_max + limits::chunk_bytes_max) <= limits::body_bytes_max);

std::size_t size_of(const chunk& c) {
  constexpr std::size_t entry_bytes = 64; // a token's text, id and logprob, with their offsets
  std::size_t entries = 4 + c.ids.size();
  for (const auto* details : {&c.details, &c.prompt_details})
    for (const auto& d : *details)
      entries += 1 + d.top.size();
  return c.text.size() + c.embedding.size() * sizeof(float) + entries * entry_bytes;
}

void flush(detokenizer_pointer self, process_id gateway, detokenizer_state::parcel& p) {
  if (p.content.all.empty())
    return;
  self->send(self->state.config.peers.gateway(gateway), std::move(p.content));
  p = {};
}

void enqueue(detokenizer_pointer self, process_id gateway, chunk c) {
  auto& p = self->state.outgoing[gateway];
  p.size_bytes += size_of(c);
  p.content.all.push_back(std::move(c));
  if (p.size_bytes > parcel_bytes_max || p.content.all.size() >= parcel_chunks_max)
    flush(self, gateway, p);
}

// More tokens than this are split into several chunks, each far below the bounds of a message.
constexpr std::uint32_t chunk_tokens_max = 1024;
static_assert(chunk_tokens_max <= limits::details_max);

// The fields common to all chunks of a stream.
chunk chunk_of(sequence_id id, const choice_stream& stream) {
  chunk c;
  c.request = stream.request;
  c.ticket = id.ticket;
  c.choice = id.choice;
  c.prompt_tokens = stream.prompt_tokens;
  c.cached_tokens = stream.cached_tokens;
  c.reasoning = stream.reasoning;
  c.begins_in_reasoning = stream.begins_in_reasoning;
  return c;
}

// Sends the prompt's log probabilities, before the first text.
void send_prompt(detokenizer_pointer self, sequence_id id, choice_stream& stream) {
  const auto& vocabulary = *self->state.config.tokenizer;
  while (stream.prompt_sent < stream.prompt.size()) {
    const auto some = std::span(stream.prompt).subspan(stream.prompt_sent);
    auto c = chunk_of(id, stream);
    c.index = c.output_tokens = stream.sent;
    c.prompt_from = static_cast<std::uint32_t>(stream.prompt_sent);
    for (const auto& s : some.first(std::min<std::size_t>(some.size(), chunk_tokens_max)))
      c.prompt_details.push_back(detail_of(vocabulary, {}, s));
    stream.prompt_sent += c.prompt_details.size();
    enqueue(self, stream.gateway, std::move(c));
  }
}

// Sends the text that was not sent yet, and then the end. After a resume, also the length of the
// text before it.
void send_rest(detokenizer_pointer self, sequence_id id, choice_stream& stream, bool is_resumed) {
  send_prompt(self, id, stream);
  bool is_sent = stream.sent >= stream.text.tokens() && !stream.end;
  while (!is_sent) {
    auto c = chunk_of(id, stream);
    const auto from = std::min(stream.sent, stream.text.tokens());
    stream.text.cut(from, chunk_tokens_max, c);
    c.output_tokens = c.index;
    if (is_resumed)
      c.characters_before = stream.text.characters_before(from);
    stream.sent = c.index;
    is_sent = c.index == stream.text.tokens();
    if (is_sent && stream.end) {
      c.finish = stream.end->finish;
      c.output_tokens = stream.end->output_tokens;
      c.stop_text = stream.end->stop_text;
      c.failure = stream.end->failure;
      c.embedding = stream.end->embedding;
      c.prepare_micros = stream.prepare_micros;
      c.queue_micros = stream.queue_micros;
    }
    enqueue(self, stream.gateway, std::move(c));
  }
}

// -- ended choices are kept for a while --

void forget_oldest(detokenizer_state& s) {
  s.kept_bytes -= s.kept.front().size_bytes;
  s.streams.erase(s.kept.front().id);
  s.kept.pop_front();
}

void keep(detokenizer_pointer self, sequence_id id, const choice_stream& stream) {
  auto& s = self->state;
  std::size_t prompt_bytes = 0;
  for (const auto& token : stream.prompt)
    prompt_bytes += sizeof token + token.top.size() * sizeof(token_logprob);
  s.kept.push_back({id, self->clock().now(),
                    sizeof(choice_stream) + stream.text.size_bytes() + prompt_bytes +
                        stream.end->embedding.size() * sizeof(float)});
  s.kept_bytes += s.kept.back().size_bytes;
  while (s.kept_bytes > kept_bytes_max)
    forget_oldest(s);
}

// Drops an ended choice whose ticket is computed again, because its gateway never received the end.
void forget(detokenizer_state& s, sequence_id id) {
  if (!s.streams.contains(id))
    return; // the usual case of a new stream: no search
  const auto it = std::find_if(s.kept.begin(), s.kept.end(),
                               [&](const detokenizer_state::ended& e) { return e.id == id; });
  if (it == s.kept.end())
    return;
  s.kept_bytes -= it->size_bytes;
  s.kept.erase(it);
  s.streams.erase(id);
}

void on_tick(detokenizer_pointer self) {
  auto& s = self->state;
  const auto now = self->clock().now();
  while (!s.kept.empty() && now - s.kept.front().at >= s.config.resume_window)
    forget_oldest(s);
}

// Answers the scheduler that sent the current message.
void cancel_choice(detokenizer_pointer self, cancel m) {
  self->send(caf::actor_cast<scheduler_actor>(self->current_sender()), std::move(m));
}

// Ends a choice that cannot be decoded, and cancels it at the scheduler.
void fail_choice(detokenizer_pointer self, const tokens& m, const error& why) {
  chunk last;
  last.request = m.request;
  last.ticket = m.ticket;
  last.choice = m.choice;
  last.prompt_tokens = m.prompt_tokens;
  last.cached_tokens = m.cached_tokens;
  last.finish = finish::failed;
  last.failure = why;
  enqueue(self, m.gateway, std::move(last));
  cancel_choice(self, {.ticket = m.ticket,
                       .choice = m.choice,
                       .why = cancel_reason::client_asked,
                       .tokens_kept = 0,
                       .reason = std::nullopt});
}

void on_tokens(detokenizer_pointer self, const tokens& m) {
  auto& s = self->state;
  const auto& vocabulary = *s.config.tokenizer;
  const sequence_id id{m.ticket, m.choice};
  if (m.begins) {
    forget(s, id);
    auto begun = begin(s.config, m);
    if (!begun)
      return fail_choice(self, m, begun.error());
    s.streams.insert_or_assign(id, std::move(*begun));
  }
  const auto it = s.streams.find(id);
  if (it == s.streams.end() || it->second.end)
    return; // failed at its start
  auto& stream = it->second;
  const bool was_stopped = stream.stopped.has_value();
  decode(vocabulary, stream, m.samples);
  if (m.finish != finish::none)
    finish_stream(vocabulary, stream, m);
  else if (stream.stopped && !was_stopped)
    cancel_choice(self, {.ticket = m.ticket,
                         .choice = m.choice,
                         .why = cancel_reason::stop_text,
                         .tokens_kept = stream.stopped->token_index + 1,
                         .reason = std::nullopt});
  send_rest(self, id, stream, /*is_resumed=*/false);
  if (stream.end)
    keep(self, id, stream);
}

void flush_all(detokenizer_pointer self) {
  for (auto& [gateway, p] : std::exchange(self->state.outgoing, {}))
    flush(self, gateway, p);
}

// -- resuming a stream --

// Choices that have not begun have no text to repeat.
bool can_resume(const detokenizer_state& s, const resume_text& m) {
  const auto& what = m.what;
  const auto count = static_cast<std::uint32_t>(what.from.size());
  bool knows_any = m.is_open;
  for (std::uint32_t choice = 0; choice < count; ++choice) {
    const auto it = s.streams.find({what.ticket, choice});
    if (it == s.streams.end()) {
      if (!m.is_open && !what.from[choice].has_finish)
        return false;
      continue;
    }
    knows_any = true;
    const auto& stream = it->second;
    if (stream.resume_key != what.resume_key ||
        what.from[choice].index > std::max(stream.sent, stream.text.tokens()))
      return false;
  }
  return knows_any && count > 0 && !s.streams.contains({what.ticket, count});
}

// Repeats the end of a choice that was over in an earlier incarnation of the head.
void send_end(detokenizer_pointer self, const resume& what, std::uint32_t choice) {
  chunk c;
  c.request = what.request;
  c.ticket = what.ticket;
  c.choice = choice;
  c.index = c.output_tokens = what.from[choice].index;
  c.finish = finish::stop;
  enqueue(self, what.gateway, std::move(c));
}

void on_resume(detokenizer_pointer self, const resume_text& m) {
  auto& s = self->state;
  const auto& what = m.what;
  const auto gateway = s.config.peers.gateway(what.gateway);
  if (!can_resume(s, m)) {
    if (m.is_open) // the scheduler resumed it, so it is orphaned again
      cancel_choice(self, {.ticket = what.ticket,
                           .choice = std::nullopt,
                           .why = cancel_reason::client_lost,
                           .tokens_kept = 0,
                           .reason = std::nullopt});
    self->send(gateway,
               rejected{.request = what.request,
                        .ticket = what.ticket,
                        .reason = fail(errc::ticket_not_found,
                                       "there is no stream of ticket {} to resume: it ended too "
                                       "long ago, or the key or the number of choices is wrong",
                                       what.ticket.value),
                        .retry_after = std::chrono::milliseconds{0},
                        .queue_position = 0});
    return;
  }
  self->send(gateway, granted{.request = what.request,
                              .ticket = what.ticket,
                              .epoch = {},
                              .resume_key = what.resume_key,
                              .is_submitted = true});
  for (std::uint32_t choice = 0; choice < what.from.size(); ++choice) {
    const auto it = s.streams.find({what.ticket, choice});
    if (it == s.streams.end()) {
      if (what.from[choice].has_finish)
        send_end(self, what, choice);
      continue;
    }
    auto& stream = it->second;
    stream.request = what.request;
    stream.gateway = what.gateway;
    stream.sent = what.from[choice].index;
    if (stream.sent == 0) // a client with text has the prompt already
      stream.prompt_sent = 0;
    send_rest(self, it->first, stream, /*is_resumed=*/true);
  }
  flush_all(self);
}

} // namespace

detokenizer_actor::behavior_type detokenizer(detokenizer_pointer self, detokenizer_config config) {
  install_fault_handlers(self);
  self->state.config = std::move(config);
  return {
      [self](const step_tokens& m) {
        for (const auto& t : m.all)
          on_tokens(self, t);
        flush_all(self);
      },
      [self](const resume_text& m) { on_resume(self, m); },
      [self](const tick&) { on_tick(self); },
  };
}

} // namespace baton::actors
