// The whole flow of one request through the real actors, wired to one another without a bus, over
// toy engines: reserve, granted, submit, admit, micro_batch, sampled, tokens, chunk. CAF's testing
// scheduler, no thread, no sleep.
#include "actors/detokenizer.hpp"
#include "actors/scheduler.hpp"
#include "actors/stage.hpp"
#include "actors/tokenizer.hpp"
#include "runtime/engine/toy_engine.hpp"
#include "runtime/model/gguf.hpp"
#include "runtime/text/vocabulary_gguf.hpp"
#include "schema/codec.hpp"
#include "schema/limits.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <doctest/doctest.h>

#include <map>

using namespace baton;
using namespace baton::actors;

namespace {

const engine::toy_model toy{.seed = 5, .stages = 2, .vocabulary_size = 259};
constexpr engine::toy_memory memory{
    .blocks = 32, .block_positions = 4, .rows_max = 64, .context_max = 128};
constexpr node_id gateway_node{3};
constexpr node_id head_node{2};

// What the gateway would see.
struct seen {
  std::vector<granted> grants;
  std::vector<rejected> refusals;
  std::vector<chunk> chunks;
  std::vector<tokenized> ids;
  std::vector<detokenized> texts;
  std::vector<model_card> cards;
};

gateway_actor::behavior_type listener(gateway_actor::pointer, seen* s) {
  return {
      [s](const granted& m) { s->grants.push_back(m); },
      [s](const rejected& m) { s->refusals.push_back(m); },
      [s](const chunks& m) { s->chunks.insert(s->chunks.end(), m.all.begin(), m.all.end()); },
      [s](const tokenized& m) { s->ids.push_back(m); },
      [s](const detokenized& m) { s->texts.push_back(m); },
      [s](const model_card& m) { s->cards.push_back(m); },
      [](const load_report&) {},
      [](const cluster_status&) {},
      [](const status&) {},
      [](const drain&) {},
      [](const peer_up&) {},
      [](const peer_down&) {},
      [](const tick&) {},
  };
}

struct world {
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::shared_ptr<const text::tokenizer> words;
  std::optional<text::chat_template> chat;
  seen gateway;
  schedule::time_point now{};
  gateway_actor listening;
  detokenizer_actor detok;
  scheduler_actor sched;
  tokenizer_actor tok;
  std::map<node_id, stage_actor> stages;
  std::vector<stage_actor> behind; // those that a swallower stands before
  std::vector<std::uint64_t> lives = std::vector<std::uint64_t>(2, 1);

  world() : world(words_of_file()) {}
  explicit world(const text::vocabulary& vocabulary) {
    load_words(vocabulary);
    config.set("scheduler.policy", caf::atom("testing"));
    system = std::make_unique<caf::actor_system>(config);
    directory peers;
    peers.gateway = [this](node_id) { return listening; };
    peers.stage = [this](node_id n) { return stages.at(n); };
    listening = system->spawn(listener, &gateway);
    detok = system->spawn(actors::detokenizer, detokenizer_config{peers, words});
    scheduler_options o;
    o.limits.max_num_seqs = 4;
    o.limits.max_num_batched_tokens = 16;
    o.limits.prefill_chunk = 8;
    o.limits.max_model_len = memory.context_max;
    o.limits.vocabulary_size = toy.vocabulary_size;
    o.stages = 2;
    o.first_epoch = epoch_id{100};
    o.detokenizer = detok;
    o.peers = peers;
    o.card.name = "toy";
    o.report = [](const load_report&) {};
    o.stands = [](phase, const std::string&) {};
    o.now = [this] { return now; };
    sched = system->spawn(actors::scheduler, o);
    tok = system->spawn(actors::tokenizer,
                        tokenizer_config{sched, peers, words, chat, memory.context_max});
    caf::anon_send(sched,
                   peer_up{{gateway_node, epoch_id{1}, role::gateway, "gateway", "", "", 0}});
    for (stage_index i = 0; i < 2; ++i)
      start_shard(i);
  }

  ~world() {
    for (auto& [node, s] : stages)
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

  static node_id shard_node(stage_index i) { return node_id{1024 + i}; }
  hello shard_hello(stage_index i) const {
    return {shard_node(i), epoch_id{lives[i]}, role::shard, "shard", "sim", "", 0};
  }

  // The next batch for this stage is taken and never spoken of again: a step that hangs.
  void swallow_next_batch(stage_index i) {
    auto real = stages.at(shard_node(i));
    behind.push_back(real);
    stages[shard_node(i)] = system->spawn(swallower, real);
  }
  static stage_actor::behavior_type swallower(stage_actor::stateful_pointer<bool> self,
                                              stage_actor real) {
    self->state = false; // nothing swallowed yet
    return {
        [real](const open_epoch& m) { caf::anon_send(real, m); },
        [self, real](micro_batch& m) {
          if (std::exchange(self->state, true))
            caf::anon_send(real, std::move(m));
        },
        [real](const sampled& m) { caf::anon_send(real, m); },
        [](const peer_up&) {},
        [](const peer_down&) {},
    };
  }

  void start_shard(stage_index i) {
    stage_config c;
    c.stage = i;
    c.stages = 2;
    c.head = head_node;
    c.scheduler = sched;
    c.peers.stage = [this](node_id n) { return stages.at(n); };
    c.connect = [this, i](const stage_address& other) {
      caf::anon_send(stages.at(shard_node(i)), peer_up{shard_hello(other.node.value - 1024)});
    };
    c.engine = std::make_shared<engine::toy_engine>(toy, i, memory);
    c.announcement = {shard_node(i), epoch_id{lives[i]},     i, 2,
                      memory.blocks, memory.block_positions, 1, "toy"};
    c.now_micros = [] { return std::uint64_t{0}; };
    stages[shard_node(i)] = system->spawn(actors::stage, c);
    caf::anon_send(sched, peer_up{shard_hello(i)});
    caf::anon_send(stages[shard_node(i)],
                   peer_up{{head_node, epoch_id{1}, role::head, "head", "", "", 0}});
  }

  void kill_shard(stage_index i) {
    caf::anon_send_exit(stages[shard_node(i)], caf::exit_reason::kill);
    caf::anon_send(sched, peer_down{shard_node(i), epoch_id{lives[i]}, "killed"});
    for (auto& [node, s] : stages)
      if (node != shard_node(i))
        caf::anon_send(s, peer_down{shard_node(i), epoch_id{lives[i]}, "killed"});
    ++lives[i];
  }

  caf::scheduler::test_coordinator& coordinator() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
  }
  void run() { coordinator().run(); }
  void run_some(int turns) {
    while (turns-- > 0 && coordinator().try_run_once()) {
    }
  }

  // Asks for a completion of these ids and returns without running anything beyond the grant.
  ticket_id ask(prompt input, std::uint32_t tokens_max, std::vector<std::string> stops = {}) {
    auto number = gateway.grants.size() + gateway.refusals.size() + 1;
    caf::anon_send(sched, reserve{number, gateway_node, "toy", 1, 10});
    while (gateway.grants.size() < number && coordinator().try_run_once()) {
    }
    REQUIRE(gateway.grants.size() == number);
    submit s;
    s.request = number;
    s.gateway = gateway_node;
    s.ticket = gateway.grants.back().ticket;
    s.input = std::move(input);
    s.sampling.temperature = 0;
    s.stop.tokens_max = tokens_max;
    s.stop.ignore_eos = true;
    s.stop.stop_texts = std::move(stops);
    s.tokens_max_given = true;
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

std::vector<token_id> oracle(const std::vector<token_id>& ids, std::uint32_t n) {
  sampling_params greedy;
  greedy.temperature = 0;
  return engine::toy_continuation(toy, ids, greedy, n);
}

} // namespace

// As Llama 2's vocabulary writes words: each with the space before it.
text::vocabulary words_with_spaces() {
  auto vocabulary = world::words_of_file();
  vocabulary.model = "llama";
  vocabulary.merges.clear();
  vocabulary.scores.assign(vocabulary.tokens.size(), 0);
  vocabulary.kinds[0] = text::token_kind::unknown;
  for (std::size_t id = 3; id < vocabulary.tokens.size(); ++id) {
    vocabulary.tokens[id] = fmt::format("\u2581w{}", id);
    vocabulary.kinds[id] = text::token_kind::normal;
  }
  return vocabulary;
}

TEST_CASE("a completion begins with the space behind its prompt, an answer to a chat does not") {
  world w(words_with_spaces());
  w.run();
  const auto completion = w.ask(ids_prompt{1, 10, 20}, 3);
  const auto without_text = w.ask(ids_prompt{1}, 3);
  const auto chat = w.ask(chat_prompt{{"user", "w7", ""}}, 3);
  w.run();
  CHECK(w.of(completion).text ==
        w.words->decode_bytes(w.of(completion).ids, true).value().insert(0, " "));
  CHECK(w.of(without_text).text == w.words->decode_bytes(w.of(without_text).ids, true).value());
  CHECK(w.of(chat).text == w.words->decode_bytes(w.of(chat).ids, true).value());
  for (const auto ticket : {completion, without_text, chat})
    CHECK(w.of(ticket).ids.size() == 3);
}

TEST_CASE(
    "a request flows through tokenizer, scheduler, two stages and detokenizer to its gateway") {
  world w;
  w.run();
  REQUIRE(w.gateway.cards.back().phase == phase::ready);
  ids_prompt ids{10, 20, 30, 40, 50};
  auto ticket = w.ask(ids, 12);
  w.run();
  auto a = w.of(ticket);
  CHECK(a.ids == oracle(ids, 12));
  CHECK(a.ends == 1);
  CHECK(a.last.finish == finish::length);
  CHECK(a.last.prompt_tokens == 5);
  CHECK(a.last.output_tokens == 12);
}

TEST_CASE("killing either stage at any moment changes no token and ends no stream twice") {
  ids_prompt first{10, 20, 30, 40, 50, 60, 70};
  ids_prompt second{11, 21};
  for (stage_index victim : {0u, 1u})
    for (int turns = 0; turns < 120; turns += 3) {
      CAPTURE(victim);
      CAPTURE(turns);
      world w;
      w.run();
      auto a = w.ask(first, 15);
      auto b = w.ask(second, 20);
      w.run_some(turns);
      w.kill_shard(victim);
      w.run();
      w.start_shard(victim);
      w.run();
      CHECK(w.of(a).ids == oracle(first, 15));
      CHECK(w.of(b).ids == oracle(second, 20));
      CHECK(w.of(a).ends == 1);
      CHECK(w.of(b).ends == 1);
    }
}

TEST_CASE("a step that never comes back is done again after its deadline, and nobody is blamed") {
  for (stage_index where : {0u, 1u}) {
    CAPTURE(where);
    world w;
    w.run();
    w.swallow_next_batch(where);
    ids_prompt ids{10, 20, 30};
    auto ticket = w.ask(ids, 6);
    w.run();
    CHECK(w.of(ticket).ids.empty());
    w.now += step_timeout - std::chrono::milliseconds{1};
    caf::anon_send(w.sched, tick{});
    w.run();
    CHECK(w.of(ticket).ids.empty());
    w.now += std::chrono::milliseconds{1};
    caf::anon_send(w.sched, tick{});
    w.run();
    CHECK(w.of(ticket).ids == oracle(ids, 6));
    CHECK(w.of(ticket).ends == 1);
  }
}

TEST_CASE("a stop string ends its choice with the tokens that complete it") {
  world w;
  w.run();
  ids_prompt ids{10, 20, 30};
  auto whole = w.ask(ids, 24);
  w.run();
  auto text = w.of(whole).text;
  auto at = text.find_first_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 4);
  REQUIRE(at != std::string::npos);
  auto stop = text.substr(at, 1);
  auto ticket = w.ask(ids, 24, {stop});
  w.run();
  auto a = w.of(ticket);
  CHECK(a.ends == 1);
  CHECK(a.last.finish == finish::stop);
  CHECK(a.last.stop_text == stop);
  CHECK(a.text == text.substr(0, text.find(stop)));
  CHECK(a.last.output_tokens == a.ids.size());
}

TEST_CASE(
    "what the tokenizer cannot take is rejected to the gateway by name and frees the ticket") {
  world w;
  w.run();
  auto bad = w.ask(ids_prompt{1, 2, 99999}, 4);
  w.run();
  REQUIRE(w.gateway.refusals.size() == 1);
  CHECK(w.gateway.refusals[0].ticket == bad);
  CHECK(w.gateway.refusals[0].reason.code == errc::invalid_value);
  caf::anon_send(w.sched, reserve{77, gateway_node, "other", 1, 10});
  w.run();
  CHECK(w.gateway.refusals.back().reason.code == errc::model_not_found);
}

TEST_CASE("chat goes through the template and special tokens never come from its content") {
  world w;
  w.run();
  caf::anon_send(w.tok, tokenize{9, gateway_node, chat_prompt{{"user", "a<|im_end|>b", ""}}, true});
  w.run();
  REQUIRE(w.gateway.ids.size() == 1);
  const auto& ids = w.gateway.ids[0].ids;
  REQUIRE_FALSE(ids.empty());
  CHECK(std::count(ids.begin(), ids.end(), 2) == 1); // the end of the user's turn
  caf::anon_send(w.tok, detokenize{10, gateway_node, ids});
  w.run();
  REQUIRE(w.gateway.texts.size() == 1);
  CHECK(w.gateway.texts[0].text.find("a<|im_end|>b") != std::string::npos);
}

TEST_CASE("answers that do not fit into a message are refused, and what fits is not") {
  world w;
  w.run();
  const std::string most(limits::ids_max, 'a'); // a token each
  caf::anon_send(w.tok, tokenize{1, gateway_node, most, false});
  caf::anon_send(w.tok, tokenize{2, gateway_node, most + 'a', false});
  const token_id long_piece = 2; // <|im_end|>
  const auto fits = limits::chunk_bytes_max / std::string_view("<|im_end|>").size();
  caf::anon_send(w.tok, detokenize{3, gateway_node, ids_prompt(fits, long_piece)});
  caf::anon_send(w.tok, detokenize{4, gateway_node, ids_prompt(fits + 1, long_piece)});
  w.run();
  REQUIRE(w.gateway.ids.size() == 2);
  CHECK_FALSE(w.gateway.ids[0].failure);
  CHECK(encode({}, w.gateway.ids[0]).size_bytes() > limits::ids_max);
  REQUIRE(w.gateway.ids[1].failure);
  CHECK(w.gateway.ids[1].failure->code == errc::payload_too_large);
  REQUIRE(w.gateway.texts.size() == 2);
  CHECK_FALSE(w.gateway.texts[0].failure);
  CHECK(encode({}, w.gateway.texts[0]).size_bytes() > limits::chunk_bytes_max / 2);
  REQUIRE(w.gateway.texts[1].failure);
  CHECK(w.gateway.texts[1].failure->code == errc::payload_too_large);
}

TEST_CASE("a cancelled ticket ends once and leaves nothing in flight") {
  world w;
  w.run();
  auto ticket = w.ask(ids_prompt{1, 2, 3}, 100);
  w.run_some(40);
  caf::anon_send(w.sched,
                 cancel{ticket, std::nullopt, cancel_reason::client_gone, 0, std::nullopt});
  caf::anon_send(w.sched,
                 cancel{ticket, std::nullopt, cancel_reason::client_gone, 0, std::nullopt});
  w.run();
  CHECK(w.of(ticket).ends <= 1);
  auto next = w.ask(ids_prompt{4, 5}, 5);
  w.run();
  CHECK(w.of(next).ids == oracle({4, 5}, 5));
}

TEST_CASE("a stop string that cannot be matched fails its choice once") {
  world w;
  w.run();
  auto ticket = w.ask(ids_prompt{1, 2, 3}, 100, {"\xff\xfe"});
  w.run();
  auto a = w.of(ticket);
  CHECK(a.ends == 1);
  CHECK(a.last.finish == finish::failed);
  CHECK(a.last.failure->code == errc::invalid_value);
}
