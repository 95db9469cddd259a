// The step and the way out: micro_batch, sampled, tokens, chunk.
#include "schema/codec_parts.hpp"

#include <unordered_map>

namespace baton::codec {

offset<wire::Slice> put(writer& out, const slice& m) {
  auto blocks = out.numbers(m.blocks, limits::blocks_max);
  return wire::CreateSlice(out.buffer, m.sequence.ticket.value, m.sequence.choice, m.position,
                           m.rows, m.samples, blocks, m.drafts);
}

void get(reader& in, const wire::Slice& from, slice& to) {
  to.sequence = {{from.ticket()}, from.choice()};
  to.position = from.position();
  in.at_most(from.rows(), limits::rows_max, "slice.rows");
  to.rows = from.rows();
  to.samples = from.samples();
  in.numbers(from.blocks(), to.blocks, limits::blocks_max, "slice.blocks");
  in.at_most(from.drafts(), limits::rows_max, "slice.drafts");
  to.drafts = from.drafts();
}

namespace {

// The constraints of a batch, each written once, however many draws share it.
class constraint_table {
public:
  // From 1; 0: none.
  std::uint32_t number_of(writer& out, const shared_constraint& c) {
    if (!c)
      return 0;
    const auto [at, is_new] =
        numbers_.try_emplace(c.get(), static_cast<std::uint32_t>(made_.size() + 1));
    if (is_new)
      made_.push_back(put(out, *c));
    return at->second;
  }
  auto finish(writer& out) const {
    using made_vector = decltype(out.buffer.CreateVector(made_));
    return made_.empty() ? made_vector{} : out.buffer.CreateVector(made_);
  }

private:
  std::unordered_map<const constraint*, std::uint32_t> numbers_;
  std::vector<offset<wire::Constraint>> made_;
};

// A draw of a batch, which refers to its constraint by number.
struct numbered_draw {
  const draw* of = nullptr;
  std::uint32_t constraint = 0;
};

offset<wire::Draw> put(writer& out, const numbered_draw& numbered) {
  const draw& m = *numbered.of;
  auto sampling = put_unconstrained(out, m.sampling);
  auto banned = out.numbers(m.banned, limits::biases_max);
  auto history = out.structs<wire::TokenCount>(m.history, limits::ids_max, [](const auto& c) {
    return wire::TokenCount(c.token, c.in_prompt, c.in_output);
  });
  auto output = out.numbers(m.output, limits::ids_max);
  return wire::CreateDraw(out.buffer, m.token_index, sampling, banned, history, numbered.constraint,
                          output, m.previous);
}

} // namespace

void get(reader& in, const wire::Draw& from, draw& to) {
  to.token_index = from.token_index();
  in.table(from.sampling(), to.sampling);
  in.numbers(from.banned(), to.banned, limits::biases_max, "draw.banned");
  in.structs(from.history(), to.history, limits::ids_max, "draw.history",
             [](const wire::TokenCount& c) {
               return token_count{c.token(), c.in_prompt(), c.in_output()};
             });
  in.numbers(from.output(), to.output, limits::ids_max, "draw.output");
  to.previous = from.previous();
}

offset<wire::Pool> put(writer& out, const pool& m) {
  auto before = out.numbers(m.before, limits::embedding_values_max);
  return wire::CreatePool(out.buffer, m.slice, static_cast<wire::Pooling>(m.how), m.is_last, before,
                          m.next, m.top);
}

void get(reader& in, const wire::Pool& from, pool& to) {
  to.slice = from.slice();
  in.one_of(from.how(), to.how, pooling::mean, pooling::scores, "pool.how");
  to.is_last = from.is_last();
  in.numbers(from.before(), to.before, limits::embedding_values_max, "pool.before");
  to.next = from.next();
  to.top = from.top();
}

offset<wire::Pooled> put(writer& out, const pooled& m) {
  auto values = out.numbers(m.values, limits::embedding_values_max);
  auto scores = out.tables(m.scores, limits::rows_max);
  return wire::CreatePooled(out.buffer, values, scores);
}

void get(reader& in, const wire::Pooled& from, pooled& to) {
  in.numbers(from.values(), to.values, limits::embedding_values_max, "pooled.values");
  in.tables(from.scores(), to.scores, limits::rows_max, "pooled.scores");
}

offset<wire::MicroBatch> put(writer& out, const micro_batch& m) {
  auto slices = out.tables(m.slices, limits::slices_max);
  auto tokens = out.numbers(m.tokens, limits::rows_max);
  constraint_table constraints;
  std::vector<numbered_draw> numbered;
  numbered.reserve(m.draws.size());
  for (const draw& d : m.draws)
    numbered.push_back({&d, constraints.number_of(out, d.sampling.constraint)});
  auto shared = constraints.finish(out);
  auto draws = out.tables(numbered, limits::draws_max);
  auto stage_micros = out.numbers(m.stage_micros, limits::stages_max);
  auto feeds = out.structs<wire::Feed>(m.feeds, limits::slices_max, [](const feed& f) {
    return wire::Feed(f.row, f.draw, f.batch.value);
  });
  auto copies = out.structs<wire::BlockCopy>(m.copies, limits::copies_max, [](const block_copy& c) {
    return wire::BlockCopy(c.block, c.swap_block, c.is_out);
  });
  auto pools = out.tables(m.pools, limits::pools_max);
  return wire::CreateMicroBatch(out.buffer, m.batch.value, m.epoch.value, slices, tokens, draws,
                                stage_micros, feeds, copies, shared, pools);
}

void get(reader& in, const wire::MicroBatch& from, micro_batch& to) {
  to.batch = {from.batch()};
  to.epoch = {from.epoch()};
  in.tables(from.slices(), to.slices, limits::slices_max, "micro_batch.slices");
  in.numbers(from.tokens(), to.tokens, limits::rows_max, "micro_batch.tokens");
  in.tables(from.draws(), to.draws, limits::draws_max, "micro_batch.draws");
  std::vector<shared_constraint> constraints;
  in.tables(from.constraints(), constraints, limits::draws_max, "micro_batch.constraints");
  for (std::size_t i = 0; i < to.draws.size() && !in.refusal(); ++i) {
    const auto number = from.draws()->Get(static_cast<flatbuffers::uoffset_t>(i))->constraint();
    if (number > constraints.size())
      in.refuse(fmt::format("a draw has constraint {} of {}", number, constraints.size()));
    else if (number > 0)
      to.draws[i].sampling.constraint = constraints[number - 1];
  }
  in.numbers(from.stage_micros(), to.stage_micros, limits::stages_max, "micro_batch.stage_micros");
  in.structs(from.feeds(), to.feeds, limits::slices_max, "micro_batch.feeds",
             [](const wire::Feed& f) {
               return feed{f.row(), f.draw(), {f.batch()}};
             });
  in.structs(from.copies(), to.copies, limits::copies_max, "micro_batch.copies",
             [](const wire::BlockCopy& c) {
               return block_copy{c.block(), c.swap_block(), c.is_out()};
             });
  in.tables(from.pools(), to.pools, limits::pools_max, "micro_batch.pools");
}

offset<wire::GroupValues> put(writer& out, const group_values& m) {
  return wire::CreateGroupValues(out.buffer, m.epoch.value, m.rank, m.meeting, m.kind, m.about);
}

void get(reader&, const wire::GroupValues& from, group_values& to) {
  to.epoch = {from.epoch()};
  to.rank = from.rank();
  to.meeting = from.meeting();
  to.kind = from.kind();
  to.about = from.about();
}

offset<wire::Sample> put(writer& out, const sample& m) {
  auto top =
      out.structs<wire::TokenLogprob>(m.top, limits::top_logprobs_max, [](const token_logprob& t) {
        return wire::TokenLogprob(t.token, t.logprob);
      });
  return wire::CreateSample(out.buffer, m.token, m.logprob, top);
}

void get(reader& in, const wire::Sample& from, sample& to) {
  to.token = from.token();
  to.logprob = from.logprob();
  in.structs(from.top(), to.top, limits::top_logprobs_max, "sample.top",
             [](const wire::TokenLogprob& t) {
               return token_logprob{t.token(), t.logprob()};
             });
}

offset<wire::Sampled> put(writer& out, const sampled& m) {
  auto samples = out.tables(m.samples, limits::draws_max);
  auto stage_micros = out.numbers(m.stage_micros, limits::stages_max);
  auto failure = out.optional(m.failure);
  auto pooled = out.tables(m.pooled, limits::pools_max);
  return wire::CreateSampled(out.buffer, m.batch.value, m.epoch.value, samples, stage_micros,
                             failure, pooled);
}

void get(reader& in, const wire::Sampled& from, sampled& to) {
  to.batch = {from.batch()};
  to.epoch = {from.epoch()};
  in.tables(from.samples(), to.samples, limits::draws_max, "sampled.samples");
  in.numbers(from.stage_micros(), to.stage_micros, limits::stages_max, "sampled.stage_micros");
  in.optional(from.failure(), to.failure);
  in.tables(from.pooled(), to.pooled, limits::pools_max, "sampled.pooled");
}

offset<wire::Tokens> put(writer& out, const tokens& m) {
  auto samples = out.tables(m.samples, limits::rows_max);
  auto stopping = put(out, m.stopping);
  auto failure = out.optional(m.failure);
  auto delivered = out.numbers(m.delivered, limits::ids_max);
  auto embedding = out.numbers(m.embedding, limits::embedding_values_max);
  auto prompt_scores = out.tables(m.prompt_scores, limits::ids_max);
  wire::TokensBuilder table(out.buffer);
  table.add_ticket(m.ticket.value);
  table.add_choice(m.choice);
  table.add_index(m.index);
  table.add_samples(samples);
  table.add_begins(m.begins);
  table.add_request(m.request);
  table.add_gateway(m.gateway.value);
  table.add_prompt_tokens(m.prompt_tokens);
  table.add_stopping(stopping);
  table.add_logprobs(m.logprobs);
  table.add_finish(static_cast<wire::Finish>(m.finish));
  table.add_tokens_total(m.tokens_total);
  table.add_failure(failure);
  table.add_cached_tokens(m.cached_tokens);
  table.add_resume_key(m.resume_key);
  table.add_delivered(delivered);
  table.add_continues_prompt(m.continues_prompt);
  table.add_embedding(embedding);
  table.add_prompt_scores(prompt_scores);
  table.add_prepare_micros(m.prepare_micros);
  table.add_queue_micros(m.queue_micros);
  return table.Finish();
}

void get(reader& in, const wire::Tokens& from, tokens& to) {
  to.ticket = {from.ticket()};
  to.choice = from.choice();
  to.index = from.index();
  in.tables(from.samples(), to.samples, limits::rows_max, "tokens.samples");
  to.begins = from.begins();
  to.request = from.request();
  to.gateway = {from.gateway()};
  to.prompt_tokens = from.prompt_tokens();
  in.table(from.stopping(), to.stopping);
  to.logprobs = from.logprobs();
  in.one_of(from.finish(), to.finish, finish::none, finish::failed, "tokens.finish");
  to.tokens_total = from.tokens_total();
  to.cached_tokens = from.cached_tokens();
  to.continues_prompt = from.continues_prompt();
  in.optional(from.failure(), to.failure);
  to.resume_key = from.resume_key();
  in.numbers(from.delivered(), to.delivered, limits::ids_max, "tokens.delivered");
  in.numbers(from.embedding(), to.embedding, limits::embedding_values_max, "tokens.embedding");
  in.tables(from.prompt_scores(), to.prompt_scores, limits::ids_max, "tokens.prompt_scores");
  to.prepare_micros = from.prepare_micros();
  to.queue_micros = from.queue_micros();
}

offset<wire::LogprobEntry> put(writer& out, const logprob_entry& m) {
  ENSURE(m.text.size() <= limits::name_bytes_max, "a token of {} bytes", m.text.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(m.text.data());
  auto text = m.text.empty() ? 0 : out.buffer.CreateVector(bytes, m.text.size());
  return wire::CreateLogprobEntry(out.buffer, text, m.token, m.logprob, m.is_control);
}

void get(reader& in, const wire::LogprobEntry& from, logprob_entry& to) {
  in.bytes(from.text(), to.text, limits::name_bytes_max, "logprob.text");
  to.token = from.token();
  to.logprob = from.logprob();
  to.is_control = from.is_control();
}

offset<wire::TokenDetail> put(writer& out, const token_detail& m) {
  auto chosen = put(out, m.chosen);
  auto top = out.tables(m.top, limits::top_logprobs_max);
  return wire::CreateTokenDetail(out.buffer, chosen, top, m.text_end);
}

void get(reader& in, const wire::TokenDetail& from, token_detail& to) {
  in.table(from.chosen(), to.chosen);
  in.tables(from.top(), to.top, limits::top_logprobs_max, "detail.top");
  to.text_end = from.text_end();
}

offset<wire::Chunk> put(writer& out, const chunk& m) {
  auto text = out.text(m.text, limits::chunk_bytes_max);
  auto ids = out.numbers(m.ids, limits::ids_max);
  auto details = out.tables(m.details, limits::details_max);
  auto stop_text = out.text(m.stop_text, limits::stop_bytes_max);
  auto failure = out.optional(m.failure);
  auto embedding = out.numbers(m.embedding, limits::embedding_values_max);
  auto prompt_details = out.tables(m.prompt_details, limits::details_max);
  wire::ChunkBuilder table(out.buffer);
  table.add_request(m.request);
  table.add_ticket(m.ticket.value);
  table.add_choice(m.choice);
  table.add_index(m.index);
  table.add_count(m.count);
  table.add_text(text);
  table.add_ids(ids);
  table.add_details(details);
  table.add_finish(static_cast<wire::Finish>(m.finish));
  table.add_prompt_tokens(m.prompt_tokens);
  table.add_output_tokens(m.output_tokens);
  table.add_stop_text(stop_text);
  table.add_failure(failure);
  table.add_cached_tokens(m.cached_tokens);
  table.add_characters_before(m.characters_before);
  table.add_embedding(embedding);
  table.add_prompt_details(prompt_details);
  table.add_prompt_from(m.prompt_from);
  table.add_prepare_micros(m.prepare_micros);
  table.add_queue_micros(m.queue_micros);
  return table.Finish();
}

void get(reader& in, const wire::Chunk& from, chunk& to) {
  to.request = from.request();
  to.ticket = {from.ticket()};
  to.choice = from.choice();
  to.index = from.index();
  to.count = from.count();
  in.text(from.text(), to.text, limits::chunk_bytes_max, "chunk.text");
  in.numbers(from.ids(), to.ids, limits::ids_max, "chunk.ids");
  in.tables(from.details(), to.details, limits::details_max, "chunk.details");
  in.one_of(from.finish(), to.finish, finish::none, finish::failed, "chunk.finish");
  to.prompt_tokens = from.prompt_tokens();
  to.output_tokens = from.output_tokens();
  to.cached_tokens = from.cached_tokens();
  in.text(from.stop_text(), to.stop_text, limits::stop_bytes_max, "chunk.stop_text");
  to.characters_before = from.characters_before();
  in.optional(from.failure(), to.failure);
  in.numbers(from.embedding(), to.embedding, limits::embedding_values_max, "chunk.embedding");
  in.tables(from.prompt_details(), to.prompt_details, limits::details_max, "chunk.prompt_details");
  to.prompt_from = from.prompt_from();
  to.prepare_micros = from.prepare_micros();
  to.queue_micros = from.queue_micros();
}

offset<wire::Chunks> put(writer& out, const chunks& m) {
  return wire::CreateChunks(out.buffer, out.tables(m.all, limits::slices_max));
}

void get(reader& in, const wire::Chunks& from, chunks& to) {
  in.tables(from.all(), to.all, limits::slices_max, "chunks.all");
}

} // namespace baton::codec
