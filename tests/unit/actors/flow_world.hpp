// Head and two stages in one process, under CAF's testing scheduler: real actors over toy engines,
// connected without a bus, and a gateway that records its messages.
#pragma once

#include "actors/detokenizer.hpp"
#include "actors/scheduler.hpp"
#include "actors/stage.hpp"
#include "actors/tokenizer.hpp"
#include "runtime/engine/toy_engine.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/text/vocabulary/vocabulary_gguf.hpp"
#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

namespace baton::actors::flow {

inline const engine::toy_model toy{.seed = 5, .layers = 2, .vocabulary_size = 259};
inline constexpr engine::toy_memory memory{
    .blocks = 32, .block_positions = 4, .rows_max = 64, .max_model_len = 128};
inline constexpr process_id gateway_process{3};
inline constexpr process_id head_process{2};
inline constexpr std::uint64_t test_key = 0xBEEF;

// The messages to the gateway.
struct seen {
  std::vector<reserve> reserves; // as the head recovers them
  std::vector<submit> submits;
  std::vector<granted> grants;
  std::vector<rejected> refusals;
  std::vector<chunk> chunks;
  std::vector<tokenized> ids;
  std::vector<detokenized> texts;
  std::vector<model_card> cards;
  std::vector<load_report> loads;
  bool is_load_first = true; // no card came before numbers
};

inline gateway_actor::behavior_type listener(gateway_actor::pointer, seen* s) {
  return {
      [s](const reserve& m) { s->reserves.push_back(m); },
      [s](const submit& m) { s->submits.push_back(m); },
      [s](const granted& m) { s->grants.push_back(m); },
      [s](const rejected& m) { s->refusals.push_back(m); },
      [s](const chunks& m) { s->chunks.insert(s->chunks.end(), m.all.begin(), m.all.end()); },
      [s](const tokenized& m) { s->ids.push_back(m); },
      [s](const detokenized& m) { s->texts.push_back(m); },
      [s](const model_card& m) {
        s->is_load_first = s->is_load_first && s->loads.size() > s->cards.size();
        s->cards.push_back(m);
      },
      [s](const load_report& m) { s->loads.push_back(m); },
      [](const cluster_status&) {},
      [](const status&) {},
      [](const drain&) {},
      [](const peer_up&) {},
      [](const peer_down&) {},
      [](const tick&) {},
  };
}

// The calls of a stage's engine.
struct engine_notes {
  std::uint32_t begun_max = 0;
  std::vector<micro_batch> begun;
  std::vector<batch_id> ran;
  std::size_t together_max = 0; // begun and not run
};

// Calls a hook before each step, and throws its exception.
class asking_engine final : public engine::engine {
public:
  using question = std::function<void(const micro_batch&)>;
  asking_engine(std::shared_ptr<baton::engine::engine> inner, question before, engine_notes& noted)
      : inner_(std::move(inner)), before_(std::move(before)), noted_(noted) {}
  const baton::engine::capacity& limits() const noexcept override { return inner_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    noted_.ran.push_back(batch.batch);
    open_ -= open_ > 0 ? 1 : 0;
    before_(batch);
    return inner_->run(batch, activations);
  }
  bool begin(const micro_batch& batch, std::span<const float> /*activations*/) override {
    noted_.begun.push_back(batch);
    noted_.together_max = std::max(noted_.together_max, ++open_);
    busy_for_ = 40; // polls during which other actors run
    return true;
  }
  std::uint32_t begun_max() const noexcept override { return noted_.begun_max; }
  bool is_busy() override { return busy_for_ > 0 && busy_for_-- > 0; }

private:
  std::shared_ptr<baton::engine::engine> inner_;
  question before_;
  engine_notes& noted_;
  std::size_t open_ = 0;
  int busy_for_ = 0;
};

// Generates all of `max_tokens`, whatever the tokens.
inline submit greedy_submit(std::uint64_t request, ticket_id ticket, prompt input,
                            std::uint32_t max_tokens) {
  submit s;
  s.request = request;
  s.gateway = gateway_process;
  s.ticket = ticket;
  s.input = std::move(input);
  s.terms.sampling.temperature = 0;
  s.terms.stop.max_tokens = max_tokens;
  s.terms.stop.ignore_eos = true;
  s.terms.max_tokens_given = true;
  return s;
}

struct flow_world {
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::shared_ptr<const text::tokenizer> words;
  std::optional<text::chat_template> chat;
  seen gateway;
  schedule::time_point now{};
  std::chrono::microseconds clock_step{0}; // between two readings of the clock
  gateway_actor listening;
  detokenizer_actor detok;
  scheduler_actor sched;
  tokenizer_actor tok;
  std::map<process_id, stage_actor> stages;
  std::vector<stage_actor> behind; // those behind a swallower
  std::vector<std::uint64_t> incarnations = std::vector<std::uint64_t>(2, 1);
  std::array<engine_notes, 2> engines;                              // by stage
  std::function<void(stage_index, const micro_batch&)> before_step; // engines throw its exception

  flow_world() : flow_world(words_of_file()) {}
  explicit flow_world(const text::vocabulary& vocabulary) {
    load_words(vocabulary);
    config.set("scheduler.policy", caf::atom("testing"));
    system = std::make_unique<caf::actor_system>(config);
    directory peers;
    peers.gateway = [this](process_id) { return listening; };
    peers.stage = [this](process_id n) { return stages.at(n); };
    listening = system->spawn(listener, &gateway);
    detok = system->spawn(actors::detokenizer, detokenizer_config{peers, words});
    scheduler_options o;
    o.limits.max_num_seqs = 4;
    o.limits.max_num_batched_tokens = 16;
    o.limits.prefill_chunk = 8;
    o.limits.max_model_len = memory.max_model_len;
    o.limits.vocabulary_size = toy.vocabulary_size;
    o.limits.first_ticket = ticket_id{100};
    o.plan.serving.stages = 2;
    o.first_epoch = epoch_id{100};
    o.detokenizer = detok;
    o.peers = peers;
    o.card.name = "toy";
    o.report = [](const load_report&) {};
    o.report_status = [](phase, const std::string&) {};
    o.now = [this] { return now += clock_step; };
    sched = system->spawn(actors::scheduler, o);
    tok = system->spawn(actors::tokenizer,
                        tokenizer_config{sched, peers, words, chat, memory.max_model_len});
    caf::anon_send(
        sched, peer_up{{gateway_process, incarnation_id{1}, role::gateway, "gateway", "", "", 0}});
    for (stage_index i = 0; i < 2; ++i)
      start_shard(i);
  }

  ~flow_world() {
    for (auto& [process, s] : stages)
      caf::anon_send_exit(s, caf::exit_reason::kill);
    for (auto& s : behind)
      caf::anon_send_exit(s, caf::exit_reason::kill);
    for (auto a : {caf::actor_cast<caf::actor>(listening), caf::actor_cast<caf::actor>(detok),
                   caf::actor_cast<caf::actor>(sched), caf::actor_cast<caf::actor>(tok)})
      caf::anon_send_exit(a, caf::exit_reason::kill);
    run();
    stages.clear();
    behind.clear();
    listening = nullptr;
    detok = nullptr;
    sched = nullptr;
    tok = nullptr;
  }

  static text::vocabulary words_of_file() {
    const testing::scratch_directory scratch;
    auto path = scratch.path() / "tiny.gguf";
    REQUIRE(testing::write_tiny_llama(path));
    auto file = model::gguf_file::open(path);
    REQUIRE(file);
    auto vocabulary = text::vocabulary_from(*file);
    REQUIRE(vocabulary);
    return *std::move(vocabulary);
  }

  void load_words(const text::vocabulary& vocabulary) {
    auto made = text::tokenizer::create(vocabulary);
    REQUIRE(made);
    words = std::make_shared<const text::tokenizer>(std::move(*made));
    auto parsed = text::chat_template::parse(vocabulary.chat_template);
    REQUIRE(parsed);
    chat = std::move(*parsed);
  }

  static process_id shard_process(stage_index i) { return process_id{1024 + i}; }
  hello shard_hello(stage_index i) const {
    return {shard_process(i), incarnation_id{incarnations[i]}, role::shard, "shard", "sim", "", 0};
  }

  // The next batch for this stage is swallowed without an answer: a step that hangs.
  void swallow_next_batch(stage_index i) { swallow(i, false); }
  // ... or the order to open an epoch, which is never answered.
  void swallow_next_epoch(stage_index i) { swallow(i, true); }
  void swallow(stage_index i, bool epochs) {
    auto real = stages.at(shard_process(i));
    behind.push_back(real);
    stages[shard_process(i)] = system->spawn(swallower, real, epochs);
  }
  static stage_actor::behavior_type swallower(stage_actor::stateful_pointer<bool> self,
                                              stage_actor real, bool epochs) {
    self->state = false; // nothing swallowed yet
    return {
        [self, real, epochs](const open_epoch& m) {
          if (!epochs || std::exchange(self->state, true))
            caf::anon_send(real, m);
        },
        [self, real, epochs](micro_batch& m) {
          if (epochs || std::exchange(self->state, true))
            caf::anon_send(real, std::move(m));
        },
        [real](const sampled& m) { caf::anon_send(real, m); },
        [real](const peer_up& m) { caf::anon_send(real, m); },
        [real](const peer_down& m) { caf::anon_send(real, m); },
    };
  }

  void start_shard(stage_index i) {
    stage_config c;
    c.stage = i;
    c.stages = 2;
    c.head = head_process;
    c.scheduler = sched;
    c.peers.stage = [this](process_id n) { return stages.at(n); };
    c.connect = [this, i](const stage_address& other) {
      caf::anon_send(stages.at(shard_process(i)), peer_up{shard_hello(other.process.value - 1024)});
    };
    c.engine = std::make_shared<asking_engine>(
        std::make_shared<engine::toy_engine>(toy, i, memory),
        [this, i](const micro_batch& batch) {
          if (before_step)
            before_step(i, batch);
        },
        engines[i]);
    c.announcement = {shard_process(i), incarnation_id{incarnations[i]}, i, 2,
                      memory.blocks,    memory.block_positions,          1, "toy"};
    c.announcement.pools = c.engine->limits().pools;
    c.now_micros = [] { return std::uint64_t{0}; };
    stages[shard_process(i)] = system->spawn(actors::stage, c);
    caf::anon_send(sched, peer_up{shard_hello(i)});
    caf::anon_send(stages[shard_process(i)],
                   peer_up{{head_process, incarnation_id{1}, role::head, "head", "", "", 0}});
  }

  void kill_shard(stage_index i) {
    caf::anon_send_exit(stages[shard_process(i)], caf::exit_reason::kill);
    caf::anon_send(sched, peer_down{shard_process(i), incarnation_id{incarnations[i]}, "killed"});
    for (auto& [process, s] : stages)
      if (process != shard_process(i))
        caf::anon_send(s, peer_down{shard_process(i), incarnation_id{incarnations[i]}, "killed"});
    ++incarnations[i];
  }

  caf::scheduler::test_coordinator& coordinator() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
  }
  void run() { coordinator().run(); }
  void run_some(int turns) {
    while (turns-- > 0 && coordinator().try_run_once()) {
    }
  }

  // Requests a completion of these ids and returns after the grant.
  ticket_id ask(prompt input, std::uint32_t max_tokens, std::vector<std::string> stops = {},
                const std::function<void(submit&)>& change = nullptr) {
    auto number = gateway.grants.size() + gateway.refusals.size() + 1;
    reserve r{number, gateway_process, "toy", 1, 10};
    r.resume_key = test_key;
    caf::anon_send(sched, r);
    while (gateway.grants.size() < number && coordinator().try_run_once()) {
    }
    REQUIRE(gateway.grants.size() == number);
    auto s = greedy_submit(number, gateway.grants.back().ticket, std::move(input), max_tokens);
    s.terms.stop.stop_texts = std::move(stops);
    if (change)
      change(s);
    caf::anon_send(tok, s);
    return s.ticket;
  }

  struct answer {
    std::vector<token_id> ids;
    std::string text;
    int ends = 0;
    chunk last;
  };
  answer of(ticket_id ticket) const {
    answer a;
    for (const auto& c : gateway.chunks)
      if (c.ticket == ticket) {
        CHECK(c.index == a.ids.size() + c.count);
        a.ids.insert(a.ids.end(), c.ids.begin(), c.ids.end());
        a.text += c.text;
        a.ends += c.finish != finish::none;
        a.last = c;
      }
    return a;
  }
};

inline std::vector<token_id> oracle(const std::vector<token_id>& ids, std::uint32_t n) {
  sampling_params greedy;
  greedy.temperature = 0;
  return engine::toy_continuation(toy, ids, greedy, n);
}

} // namespace baton::actors::flow
