// The whole loop under random events: tickets, cancels, stages with random delays, lost epochs,
// failed steps, duplicates and stale results, with few blocks. Each seed is one run. At rest every
// ticket has ended once, and every token equals the toy engine's oracle. Also for a model with
// recurrent states, with few slots for them.
#include "runtime/schedule/scheduler.hpp"
#include "tests/unit/schedule/toy_pipeline.hpp"

#include <algorithm>
#include <random>

using namespace baton;
using namespace baton::schedule;

namespace {

struct dice {
  std::mt19937_64 generator;
  // Uniform in [low, high]; not a std distribution, whose numbers differ between libraries.
  std::uint32_t from(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(generator() % (high - low + 1));
  }
  bool chance(std::uint32_t percent) { return from(1, 100) <= percent; }
};

struct choice_seen {
  std::vector<token_id> tokens;
  std::vector<float> embedding;
  std::vector<sample> prompt_scores;
  std::optional<finish> end;
  bool is_quarantined = false; // in flight, and in the end alone, at several deaths
  std::uint32_t total = 0;
};

struct ticket_seen {
  admit request;
  bool is_refused = false;
  bool is_disturbed = false; // cancelled, or a step of it failed: may end early
  std::vector<choice_seen> choices;
};

struct random_world {
  explicit random_world(std::uint64_t seed, bool has_states = false)
      : random{std::mt19937_64{seed}}, s(make_config()) {
    model = {.seed = seed + 1, .layers = random.from(1, 3), .vocabulary_size = 64};
    memory = {.blocks = random.from(8, 40),
              .block_positions = random.from(2, 6),
              .rows_max = config.max_num_batched_tokens,
              .max_model_len = config.max_model_len,
              .swap_blocks = random.chance(60) ? random.from(1, 30) : 0};
    if (has_states) {
      model.has_states = true;
      memory.state_slots = random.from(2, 4 + 4 * config.max_num_seqs);
    }
    open();
  }

  scheduler_config make_config() {
    config.max_num_seqs = random.from(1, 8);
    config.max_num_batched_tokens = random.from(4, 24);
    config.prefill_chunk = random.from(2, 20);
    config.max_model_len = 48;
    config.vocabulary_size = 64;
    config.max_num_queued_reqs = 6;
    config.max_num_queued_tokens = 400;
    config.eos_ids = {1, 2};
    config.use_job_ticket = random.chance(10);
    if (random.chance(50))
      config.scheduling_policy = scheduling_policy::priority;
    config.enable_prefix_caching = random.chance(80);
    config.async_scheduling = random.chance(80);
    config.num_speculative_tokens = random.chance(50) ? random.from(1, 5) : 0;
    config.speculative_disable_by_batch_size = random.chance(50) ? random.from(1, 6) : 0;
    config.pooling = static_cast<pooling>(random.from(1, 3));
    config.lookup.ngram_min = 1;       // these texts rarely repeat longer sequences
    if (config.prefill_chunk % 3 == 0) // no draw: the following ones stay as without it
      config.max_batch_total_tokens = config.max_model_len + 12 * config.max_num_seqs;
    return config;
  }

  // The ids of the toy model are letters, except its end tokens.
  static std::shared_ptr<grammar::masker> make_masker() {
    grammar::answer_texts texts;
    for (int i = 0; i < 64; ++i)
      texts.all.emplace_back(i == 1 || i == 2 ? 0 : 1, static_cast<char>('0' + i));
    texts.end_ids = {1, 2};
    return std::make_shared<grammar::masker>(std::move(texts));
  }

  void open() {
    const bool is_lost = !pipeline || random.chance(50);
    if (is_lost)
      pipeline = std::make_unique<toy_pipeline>(model, memory, make_masker());
    const pipeline_shape shape{.stages = model.layers,
                               .blocks = memory.blocks,
                               .block_positions = memory.block_positions,
                               .swap_blocks = memory.swap_blocks,
                               .state_slots = memory.state_slots};
    const bool is_known = !is_lost && random.chance(80); // reported as kept
    s.open_epoch({++epoch}, shape, random.chance(50) ? loss::shard : loss::link,
                 is_known ? kv_fate::kept : kv_fate::lost);
    pipeline->forget_steps(); // memory is kept, with all their writes, but not swap space
  }

  void lose_pipeline() {
    for (const auto& result : pipeline->results)
      late.push_back(result);
    s.close_epoch(now);
    s.check_integrity();
    for (std::uint32_t i = random.from(0, 3); i > 0; --i)
      come();
    for (auto& result : pipeline->results) // of the last stage, which had sent them
      if (random.chance(50))
        s.on_sampled(result);
    s.check_integrity();
    open();
  }

  void come() {
    const std::uint32_t choices = random.chance(20) ? random.from(2, 3) : 1;
    const auto answer =
        s.reserve({.request = ++requests,
                   .gateway = {1},
                   .model = "toy",
                   .choices = choices,
                   .priority = config.scheduling_policy == scheduling_policy::priority
                                   ? static_cast<std::int32_t>(random.from(0, 2)) - 1
                                   : 0},
                  now);
    if (const auto* no = std::get_if<rejected>(&answer)) {
      CHECK_FALSE(no->ticket);
      return;
    }
    admit a;
    a.ticket = std::get<granted>(answer).ticket;
    a.terms.choices = choices;
    a.gateway = {1};
    a.request = requests;
    a.prompt_ids.resize(random.from(1, 30));
    for (token_id& id : a.prompt_ids)
      id = static_cast<token_id>(random.from(0, 63));
    // Many share a prefix with a few others, possibly under another salt.
    const auto shared = std::min<std::size_t>(random.from(0, 30), a.prompt_ids.size());
    const std::uint32_t text = random.from(0, 2);
    for (std::size_t i = 0; i < shared; ++i)
      a.prompt_ids[i] = static_cast<token_id>((text * 7 + i * 3) % 64);
    a.terms.cache_salt = random.chance(20) ? "another" : "";
    a.terms.max_tokens_given = random.chance(90);
    a.terms.stop.max_tokens = random.from(1, 18);
    a.terms.stop.min_tokens = random.chance(30) ? random.from(1, 10) : 0;
    a.terms.stop.ignore_eos = random.chance(30);
    if (random.chance(30))
      a.terms.stop.stop_ids = {7, 9};
    a.terms.sampling.temperature = random.chance(30) ? 0.0f : 1.0f;
    a.terms.sampling.seed = random.from(0, 1000);
    a.terms.sampling.repetition_penalty = random.chance(20) ? 1.5f : 1.0f;
    a.terms.sampling.presence_penalty = random.chance(20) ? 1.0f : 0.0f;
    a.terms.sampling.num_speculative_tokens =
        random.chance(30) ? static_cast<std::int32_t>(random.from(0, 5)) : -1;
    if (random.chance(30))
      a.terms.sampling.constraint = random.chance(50) ? pairs : any_word;
    if (random.chance(30)) {
      a.terms.sampling.watermark_gamma = 0.5f;
      a.terms.sampling.watermark_delta = 3.0f;
    }
    a.terms.sampling.typical_p = random.chance(20) ? 0.5f : 1.0f;
    a.terms.sampling.top_k = random.chance(20) ? 10 : 0;
    a.terms.sampling.top_p = random.chance(20) ? 0.8f : 1.0f;
    auto& seen = tickets[a.ticket];
    seen.request = a;
    seen.choices.resize(choices);
    seen.request.terms.wants_embedding = a.terms.wants_embedding =
        choices == 1 && random.chance(15);
    if (!a.terms.wants_embedding && random.chance(20))
      a.terms.sampling.prompt_logprobs = static_cast<std::int32_t>(random.from(0, 3));
    if (a.terms.sampling.prompt_logprobs >= 0 && random.chance(30)) {
      a.terms.max_tokens_given = true;
      a.terms.stop.max_tokens = a.terms.stop.min_tokens = 0;
    }
    seen.request = a;
    if (random.chance(5)) {
      seen.is_disturbed = true; // never submitted: ends by cancel or time
      return;
    }
    s.admit(a);
  }

  void cancel_some() {
    if (tickets.empty())
      return;
    auto it =
        std::next(tickets.begin(), random.from(0, static_cast<std::uint32_t>(tickets.size() - 1)));
    it->second.is_disturbed = true;
    cancel c;
    c.ticket = it->first;
    if (random.chance(50))
      c.choice = random.from(0, it->second.request.terms.choices - 1);
    const bool has_text = !it->second.request.terms.wants_embedding;
    c.why = random.chance(70) || !has_text ? cancel_reason::client_gone : cancel_reason::stop_text;
    c.tokens_kept = random.from(0, 5);
    s.cancel(c);
  }

  void deliver() {
    if (pipeline->results.empty())
      return;
    sampled step = std::move(pipeline->results.front());
    pipeline->results.pop_front();
    if (random.chance(2)) {
      step.failure = error{errc::internal, "injected", {}};
      step.samples.clear();
      step.pooled.clear();
      has_failures = true;
    }
    s.on_sampled(step);
    if (random.chance(10))
      s.on_sampled(step);
    if (random.chance(10))
      late.push_back(step);
  }

  void event() {
    const std::uint32_t kind = random.from(1, 100);
    if (kind <= 10)
      come();
    else if (kind <= 12)
      cancel_some();
    else if (kind <= 40)
      send();
    else if (kind <= 70)
      pipeline->step(random.from(0, model.layers - 1));
    else if (kind <= 97)
      deliver();
    else if (kind == 98 && random.chance(30))
      lose_pipeline();
    else if (kind == 99 && !late.empty())
      s.on_sampled(late[random.from(0, static_cast<std::uint32_t>(late.size() - 1))]);
    else
      now += std::chrono::milliseconds(random.from(1, 500)), s.tick(now);
    look();
  }

  void send() {
    auto batch = s.next();
    if (!batch)
      return;
    CHECK(batch->rows() <= config.max_num_batched_tokens);
    ahead += batch->feeds.size();
    pipeline->feed.push(std::move(*batch));
  }

  void look() {
    s.check_integrity();
    CHECK(s.load().in_flight <= model.layers + (config.async_scheduling ? 1 : 0));
    const auto out = s.take();
    for (const auto& r : out.refusals) {
      auto& seen = tickets.at(r.message.ticket);
      CHECK_FALSE(seen.is_refused);
      seen.is_refused = true;
      has_context_refusals |= r.message.reason.code == errc::context_length_exceeded;
      refusals.push_back(r.message.reason.code);
      for (const auto& choice : seen.choices)
        CHECK((choice.tokens.empty() && !choice.end));
    }
    for (const auto& m : out.tokens) {
      auto& seen = tickets.at(m.ticket);
      CHECK_FALSE(seen.is_refused);
      auto& choice = seen.choices.at(m.choice);
      CHECK_FALSE(choice.end.has_value());
      CHECK(m.index == choice.tokens.size());
      CHECK((!m.begins || choice.tokens.empty()));
      if (m.begins)
        choice.prompt_scores = m.prompt_scores;
      else
        CHECK(m.prompt_scores.empty());
      for (const auto& drawn : m.samples)
        choice.tokens.push_back(drawn.token);
      if (m.finish == finish::none)
        continue;
      choice.end = m.finish;
      choice.embedding = m.embedding;
      choice.is_quarantined = m.failure && m.failure->code == errc::quarantined;
      choice.total = m.tokens_total;
      CHECK(m.failure.has_value() == (m.finish == finish::failed || m.finish == finish::cancelled));
    }
  }

  void come_to_rest() {
    s.drain();
    now += std::chrono::seconds(10); // what was never submitted expires
    s.tick(now);
    look();
    for (int i = 0; !s.is_idle(); ++i) {
      REQUIRE_MESSAGE(i < 20'000, "no progress");
      send();
      for (stage_index stage = 0; stage < model.layers; ++stage)
        pipeline->step(stage);
      deliver();
      look();
    }
    CHECK(s.load().blocks_used == 0);
    CHECK(s.load().swap_blocks_used == 0);
    CHECK(s.counted().tickets_granted == s.counted().tickets_ended);
    CHECK(s.counted().tickets_ended == tickets.size());
  }

  void compare() const {
    for (const auto& [id, seen] : tickets)
      for (std::uint32_t i = 0; i < seen.choices.size(); ++i) {
        CAPTURE(id.value);
        CAPTURE(i);
        const auto& choice = seen.choices[i];
        CHECK(choice.end.has_value() != seen.is_refused);
        if (choice.end)
          compare_choice(seen, i, choice);
      }
  }

  void compare_choice(const ticket_seen& seen, std::uint32_t i, const choice_seen& choice) const {
    const auto& request = seen.request;
    if (request.terms.wants_embedding)
      return compare_embedding(seen, choice);
    if (request.terms.sampling.prompt_logprobs >= 0 && !choice.prompt_scores.empty())
      CHECK(choice.prompt_scores ==
            engine::toy_scores(model, request.prompt_ids,
                               static_cast<std::uint32_t>(request.terms.sampling.prompt_logprobs)));
    if (!choice.tokens.empty())
      CHECK(choice.prompt_scores.empty() == (request.terms.sampling.prompt_logprobs < 0));
    std::vector<token_id> ends = request.terms.stop.stop_ids;
    if (!request.terms.stop.ignore_eos)
      ends.insert(ends.end(), config.eos_ids.begin(), config.eos_ids.end());
    auto sampling = request.terms.sampling;
    sampling.seed += i;
    CHECK(choice.tokens ==
          engine::toy_continuation(model, request.prompt_ids, sampling,
                                   static_cast<std::uint32_t>(choice.tokens.size()), ends,
                                   request.terms.stop.min_tokens, make_masker()));
    const auto is_end = [&](token_id id) {
      return std::find(ends.begin(), ends.end(), id) != ends.end();
    };
    for (std::size_t k = request.terms.stop.min_tokens; k + 1 < choice.tokens.size(); ++k)
      CHECK_FALSE(is_end(choice.tokens[k]));
    if (seen.is_disturbed || choice.is_quarantined ||
        (*choice.end == finish::failed && has_failures))
      return;
    CHECK(choice.total == choice.tokens.size());
    const std::size_t context =
        std::min<std::size_t>(config.max_model_len, memory.blocks * memory.block_positions + 1);
    const std::size_t bound = std::min<std::size_t>(
        request.terms.max_tokens_given ? request.terms.stop.max_tokens : config.max_model_len,
        context - request.prompt_ids.size());
    if (*choice.end == finish::stop)
      CHECK(is_end(choice.tokens.back()));
    else if (*choice.end == finish::length)
      CHECK(choice.tokens.size() == bound);
    else
      CHECK_MESSAGE(false, "ends with " << static_cast<int>(*choice.end) << " for no reason");
  }

  void compare_embedding(const ticket_seen& seen, const choice_seen& choice) const {
    CHECK((choice.tokens.empty() && choice.total == 0));
    const bool is_made = !choice.embedding.empty();
    CHECK(is_made == (*choice.end == finish::stop));
    if (is_made)
      CHECK(choice.embedding ==
            engine::toy_embedding(model, seen.request.prompt_ids, config.pooling));
    else
      CHECK((seen.is_disturbed || choice.is_quarantined || has_failures));
  }

  const shared_constraint pairs = constraint{constraint_kind::regex, "([A-P][a-n]){1,6}"};
  const shared_constraint any_word = constraint{constraint_kind::regex, "[0-9][A-z]*"};
  dice random;
  scheduler_config config;
  scheduler s;
  engine::toy_model model;
  engine::toy_memory memory;
  std::unique_ptr<toy_pipeline> pipeline;
  std::map<ticket_id, ticket_seen> tickets;
  std::vector<sampled> late;
  std::vector<errc> refusals;
  time_point now{};
  std::uint64_t epoch = 0, requests = 0, ahead = 0;
  bool has_failures = false, has_context_refusals = false;
};

// The events of all seeds.
struct totals_seen {
  std::uint64_t tokens = 0, preemptions = 0, epochs = 0, stale = 0, duplicates = 0, hits = 0,
                ahead = 0, drafts = 0, right = 0, swapped_out = 0, swapped_in = 0, quarantined = 0;
  std::size_t tickets = 0, whole = 0, embeddings = 0;

  void add(const random_world& w) {
    const auto load = w.s.load();
    tokens += load.output_tokens;
    preemptions += load.preemptions;
    hits += load.prefix_cache_hits;
    swapped_out += load.swapped_out_blocks;
    swapped_in += load.swapped_in_blocks;
    ahead += w.ahead;
    drafts += load.spec_decode_draft_tokens;
    right += load.spec_decode_accepted_tokens;
    epochs += load.epochs;
    quarantined += w.s.counted().quarantined;
    stale += w.s.counted().stale_results;
    duplicates += w.s.counted().duplicate_results;
    tickets += w.tickets.size();
    for (const auto& [id, seen] : w.tickets)
      whole += !seen.is_disturbed && !seen.is_refused,
          embeddings += seen.choices[0].embedding.empty() ? 0 : 1;
  }
  void check() const {
    CAPTURE(tokens);
    CHECK(tokens > 10'000);
    CHECK(tickets > 2'000);
    CHECK(whole > tickets / 3);
    CHECK(embeddings > 100);
    CHECK(preemptions > 100);
    CHECK(swapped_out > 500);
    CHECK(swapped_in > 200);
    CHECK(ahead > 2'000);
    CHECK(epochs > 300);
    CHECK(quarantined < 10);
    CHECK(stale > 100);
    CHECK(duplicates > 100);
    MESSAGE(tickets << " tickets, " << tokens << " tokens, " << preemptions << " preemptions, "
                    << hits << " cached, " << swapped_out << " blocks swapped out, " << swapped_in
                    << " in, " << epochs << " epochs, " << whole << " whole");
  }
};

totals_seen run_seeds(bool has_states) {
  totals_seen all;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    random_world w(seed, has_states);
    for (int i = 0; i < 1500; ++i)
      w.event();
    w.come_to_rest();
    w.compare();
    all.add(w);
  }
  return all;
}

} // namespace

TEST_CASE("random traffic, losses and failures never change a token or leave a ticket open") {
  const auto all = run_seeds(/*has_states=*/false);
  all.check();
  CHECK(all.hits > 2'000);
  CHECK(all.drafts > 2'000);
  CHECK(all.right > 20);
}

TEST_CASE("the same holds for a model with recurrent states, however few slots it has") {
  const auto all = run_seeds(/*has_states=*/true);
  all.check();
  CHECK(all.hits > 1'000);
  CHECK(all.drafts == 0);
}
