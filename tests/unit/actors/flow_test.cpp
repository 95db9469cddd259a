// The whole flow of one request through the real actors, connected without a bus, over toy engines:
// reserve, granted, submit, admit, micro_batch, sampled, tokens, chunk. CAF's testing scheduler, no
// thread, no sleep.
#include "tests/unit/actors/flow_world.hpp"

using namespace baton;
using namespace baton::actors;
using namespace baton::actors::flow;

TEST_CASE(
    "a request flows through tokenizer, scheduler, two stages and detokenizer to its gateway") {
  flow_world w;
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

TEST_CASE("a gateway has a pipeline's load report before its ready card") {
  flow_world w;
  w.run(); // no tick, which would report them
  CHECK(w.gateway.is_load_first);
  REQUIRE(w.gateway.cards.back().phase == phase::ready);
  CHECK(w.gateway.loads.back().model == "toy");
  CHECK(w.gateway.loads.back().blocks_total == memory.blocks);
}

TEST_CASE("the end of a choice has its ticket's queue time, and no earlier chunk does") {
  flow_world w;
  w.run();
  w.clock_step = std::chrono::microseconds(7);
  const auto ticket = w.ask(ids_prompt{10, 20, 30}, 12);
  w.run();
  const auto last = w.of(ticket).last;
  CHECK(last.prepare_micros > 0);
  CHECK(last.queue_micros > 0);
  for (const auto& c : w.gateway.chunks)
    if (c.finish == finish::none)
      CHECK(c.prepare_micros + c.queue_micros == 0);
}

TEST_CASE("a prompt is truncated to its last tokens on request") {
  flow_world w;
  w.run();
  for (const std::uint32_t most : {1u, 2u, 5u, 9u}) {
    const ids_prompt ids{10, 20, 30, 40, 50};
    const auto ticket = w.ask(ids, 6, {}, [&](submit& s) { s.prompt_tokens_max = most; });
    w.run();
    const ids_prompt rest(ids.end() - std::min(most, 5u), ids.end());
    CHECK(w.of(ticket).ids == oracle(rest, 6));
    CHECK(w.of(ticket).last.prompt_tokens == rest.size());
  }
}

TEST_CASE("each token's details give the end of its text and whether it has any") {
  flow_world w;
  w.run();
  const auto ticket =
      w.ask(ids_prompt{10, 20, 30}, 40, {}, [](submit& s) { s.terms.sampling.logprobs = 2; });
  w.run();
  std::size_t seen = 0;
  for (const auto& c : w.gateway.chunks) {
    if (c.ticket != ticket)
      continue;
    REQUIRE(c.details.size() == c.ids.size());
    std::size_t begin = 0;
    for (std::size_t i = 0; i < c.details.size(); ++i, ++seen) {
      const auto& d = c.details[i];
      REQUIRE(d.text_end >= begin);
      CHECK(d.chosen.token == c.ids[i]);
      CHECK(d.chosen.is_control == w.words->is_control(c.ids[i]));
      if (d.chosen.is_control)
        CHECK(d.text_end == begin);
      for (const auto& t : d.top)
        CHECK(t.is_control == w.words->is_control(t.token));
      begin = d.text_end;
    }
    CHECK(begin == c.text.size());
  }
  CHECK(seen == 40);
}

TEST_CASE("a kill of either stage at any moment changes no token and ends no stream twice") {
  ids_prompt first{10, 20, 30, 40, 50, 60, 70};
  ids_prompt second{11, 21};
  for (stage_index victim : {0u, 1u})
    for (int turns = 0; turns < 120; turns += 3) {
      CAPTURE(victim);
      CAPTURE(turns);
      flow_world w;
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

TEST_CASE("a step that never comes back is repeated after its deadline, and no request is blamed") {
  for (stage_index where : {0u, 1u}) {
    CAPTURE(where);
    flow_world w;
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

TEST_CASE("a step without memory ends the sequence that needs it, and no other") {
  for (stage_index where : {0u, 1u}) {
    CAPTURE(where);
    flow_world w;
    static constexpr token_id large = 99;
    w.before_step = [where](stage_index stage, const micro_batch& batch) {
      if (stage == where &&
          std::find(batch.tokens.begin(), batch.tokens.end(), large) != batch.tokens.end())
        throw std::bad_alloc();
    };
    w.run();
    const ids_prompt first{10, 20, 30, 40}, second{11, 21};
    const auto a = w.ask(first, 15);
    const auto b = w.ask(ids_prompt{12, large, 22}, 15);
    const auto c = w.ask(second, 20);
    w.run();
    CHECK(w.of(a).ids == oracle(first, 15));
    CHECK(w.of(c).ids == oracle(second, 20));
    CHECK(w.of(b).ids.empty());
    REQUIRE(w.gateway.refusals.size() == 1); // before its first token
    CHECK(w.gateway.refusals[0].ticket == b);
    CHECK(w.gateway.refusals[0].reason.code == errc::does_not_fit);
    CHECK(w.gateway.refusals[0].reason.message ==
          fmt::format("stage {} has no memory for a step of 3 rows", where));
    w.gateway.refusals.clear();
    const auto d = w.ask(second, 20); // the stages continue
    w.run();
    CHECK(w.of(d).ids == oracle(second, 20));
  }
}

TEST_CASE("a single step without memory ends no request, even with one sequence alone") {
  for (stage_index where : {0u, 1u}) {
    CAPTURE(where);
    flow_world w;
    bool is_short = false;
    w.before_step = [&](stage_index stage, const micro_batch&) {
      if (stage == where && std::exchange(is_short, false))
        throw std::bad_alloc();
    };
    w.run();
    is_short = true;
    const ids_prompt ids{10, 20, 30};
    const auto ticket = w.ask(ids, 15);
    w.run();
    CHECK_FALSE(is_short);
    CHECK(w.of(ticket).ids == oracle(ids, 15));
    CHECK(w.of(ticket).ends == 1);
  }
}

TEST_CASE("an epoch that a stage never opens is given up after the deadline, for the next one") {
  flow_world w;
  w.swallow_next_epoch(1);
  w.run();
  const auto after = [&w](std::chrono::milliseconds time) {
    w.now += time;
    caf::anon_send(w.sched, tick{});
    w.run();
  };
  after(opening_timeout - std::chrono::milliseconds{1});
  caf::anon_send(w.sched, reserve{77, gateway_process, "toy", 1, 10});
  w.run();
  CHECK(w.gateway.refusals.size() == 1); // no pipeline serves
  w.gateway.refusals.clear();
  after(std::chrono::milliseconds{1});
  ids_prompt ids{10, 20, 30};
  auto ticket = w.ask(ids, 6);
  w.run();
  CHECK(w.of(ticket).ids == oracle(ids, 6));
  CHECK(w.of(ticket).ends == 1);
}

TEST_CASE("a stop string ends its choice with the tokens that complete it") {
  flow_world w;
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

TEST_CASE("a stop string within the first min_tokens tokens ends nothing, also after a restart") {
  flow_world w;
  w.run();
  ids_prompt ids{10, 20, 30};
  auto whole = w.ask(ids, 24);
  w.run();
  const auto text = w.of(whole).text;
  const auto all = w.of(whole).ids;
  const auto at =
      text.find_first_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
  REQUIRE(at != std::string::npos);
  const auto stop = text.substr(at, 1);
  // Its end; `had`: tokens delivered in an earlier incarnation of the head.
  const auto end_of = [&](std::uint32_t min_tokens, std::size_t had) {
    const auto ticket = w.ask(ids, 24, {stop}, [&](submit& s) {
      s.terms.stop.min_tokens = min_tokens;
      if (had > 0)
        s.delivered = {
            {ids_prompt(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(had)), false}};
    });
    w.run();
    const auto last =
        std::find_if(w.gateway.chunks.begin(), w.gateway.chunks.end(), [&](const chunk& c) {
          return c.ticket == ticket && c.finish != finish::none;
        });
    REQUIRE(last != w.gateway.chunks.end());
    return *last;
  };
  CHECK(end_of(0, 0).stop_text == stop);
  const auto first = end_of(0, 0).output_tokens;
  CHECK(end_of(24, 0).finish == finish::length);
  // The first occurrence is text and does not end the answer.
  const auto late = end_of(first, 0);
  CHECK(late.output_tokens > first);
  // A head that has lost its log decodes the delivered tokens again, and ends at the same place.
  for (const std::size_t had : {std::size_t{1}, std::size_t{first}}) {
    const auto again = end_of(first, had);
    CHECK(again.finish == late.finish);
    CHECK(again.output_tokens == late.output_tokens);
  }
}

TEST_CASE("a model's default of tokens is limited by the rest of the context") {
  flow_world w;
  w.run();
  const auto asked = [&](std::size_t prompt, std::uint32_t otherwise) {
    const auto ticket = w.ask(ids_prompt(prompt, 7), 16, {}, [&](submit& s) {
      s.terms.max_tokens_given = false;
      s.max_tokens_default = otherwise;
    });
    w.run();
    return w.of(ticket).last.output_tokens;
  };
  CHECK(asked(4, 6) == 6);
  CHECK(asked(memory.max_model_len - 5, 100) == 5);
  CHECK(asked(memory.max_model_len - 5, 0) == 5); // there is none
}

TEST_CASE("special tokens spelled out in a raw prompt are parsed if the API server requests it") {
  flow_world w;
  w.run();
  const std::string raw = "<|im_start|>user\nhi<|im_end|>";
  caf::anon_send(w.tok, tokenize{1, gateway_process, raw, true, true});
  caf::anon_send(w.tok, tokenize{2, gateway_process, raw, true, false});
  caf::anon_send(w.tok,
                 tokenize{3, gateway_process, chat_prompt{{"user", "<|im_end|>", ""}}, true, true});
  w.run();
  REQUIRE(w.gateway.ids.size() == 3);
  const auto ends = [&](std::size_t i) {
    const auto& found = w.gateway.ids[i].ids;
    return std::count(found.begin(), found.end(), 2);
  };
  CHECK(ends(0) == 1);
  CHECK(w.gateway.ids[0].ids == w.words->encode_prompt(raw, true).value());
  CHECK(ends(1) == 0);
  CHECK(ends(2) == 1); // the template's
}

TEST_CASE("special tokens precede a prompt as its client wants") {
  flow_world w;
  w.run();
  const auto ask = [&](std::uint64_t number, prompt input, special_tokens special) {
    tokenize m{number, gateway_process, std::move(input), true, true};
    m.template_options.special = special;
    caf::anon_send(w.tok, std::move(m));
  };
  const chat_prompt chat{{"user", "hi", ""}};
  ask(1, std::string("hi"), special_tokens::usual);
  ask(2, std::string("hi"), special_tokens::omitted);
  ask(3, chat, special_tokens::usual);
  ask(4, chat, special_tokens::added);
  w.run();
  REQUIRE(w.gateway.ids.size() == 4);
  const auto& got = w.gateway.ids;
  CHECK(got[0].ids == w.words->with_special(got[1].ids));
  CHECK(got[3].ids == w.words->with_special(got[2].ids));
}

TEST_CASE("a prompt refused by the tokenizer is rejected by name and frees the ticket") {
  flow_world w;
  w.run();
  auto bad = w.ask(ids_prompt{1, 2, 99999}, 4);
  w.run();
  REQUIRE(w.gateway.refusals.size() == 1);
  CHECK(w.gateway.refusals[0].ticket == bad);
  CHECK(w.gateway.refusals[0].reason.code == errc::invalid_value);
  caf::anon_send(w.sched, reserve{77, gateway_process, "other", 1, 10});
  w.run();
  CHECK(w.gateway.refusals.back().reason.code == errc::model_not_found);
}

TEST_CASE("chat uses the template and special tokens never come from its content") {
  flow_world w;
  w.run();
  caf::anon_send(w.tok,
                 tokenize{9, gateway_process, chat_prompt{{"user", "a<|im_end|>b", ""}}, true});
  w.run();
  REQUIRE(w.gateway.ids.size() == 1);
  const auto& ids = w.gateway.ids[0].ids;
  REQUIRE_FALSE(ids.empty());
  CHECK(std::count(ids.begin(), ids.end(), 2) == 1); // the end of the user's turn
  caf::anon_send(w.tok, detokenize{10, gateway_process, ids});
  w.run();
  REQUIRE(w.gateway.texts.size() == 1);
  CHECK(w.gateway.texts[0].text.find("a<|im_end|>b") != std::string::npos);
}

TEST_CASE("answers that do not fit into a message are refused, and the largest that fits is not") {
  flow_world w;
  w.run();
  const std::string most(limits::ids_max, 'a'); // one token each
  caf::anon_send(w.tok, tokenize{1, gateway_process, most, false});
  caf::anon_send(w.tok, tokenize{2, gateway_process, most + 'a', false});
  const token_id long_piece = 2; // <|im_end|>
  const auto fits = limits::chunk_bytes_max / std::string_view("<|im_end|>").size();
  caf::anon_send(w.tok, detokenize{3, gateway_process, ids_prompt(fits, long_piece)});
  caf::anon_send(w.tok, detokenize{4, gateway_process, ids_prompt(fits + 1, long_piece)});
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
  flow_world w;
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
  flow_world w;
  w.run();
  auto ticket = w.ask(ids_prompt{1, 2, 3}, 100, {"\xff\xfe"});
  w.run();
  auto a = w.of(ticket);
  CHECK(a.ends == 1);
  CHECK(a.last.finish == finish::failed);
  CHECK(a.last.failure->code == errc::invalid_value);
}

namespace {

// In Llama 2's vocabulary each word has the space before it.
text::vocabulary words_with_spaces() {
  auto vocabulary = flow_world::words_of_file();
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

} // namespace

TEST_CASE("a completion keeps the space after its prompt, an answer to a chat does not") {
  flow_world w(words_with_spaces());
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

namespace {

// Some prompts, requested at once from engines that begin steps.
struct begun_flow {
  flow_world w;
  std::vector<ids_prompt> prompts;
  std::vector<ticket_id> tickets;

  begun_flow() {
    for (auto& each : w.engines)
      each.begun_max = 2;
    w.run();
    for (token_id i = 0; i < 6; ++i) {
      prompts.push_back({10 + i, 20, 30, 40 + i, 50, 60, 70, 80, 90, 100, 110});
      tickets.push_back(w.ask(prompts.back(), 12));
    }
  }
  void check_all_answered() {
    w.run();
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      const auto a = w.of(tickets[i]);
      CHECK(a.ids == oracle(prompts[i], 12));
      CHECK(a.ends == 1);
    }
  }
};

} // namespace

TEST_CASE("an engine that may begin steps begins those that it runs, in that order, two at most") {
  begun_flow f;
  f.check_all_answered();
  for (const auto& each : f.w.engines) {
    CHECK(each.together_max == 2);
    std::vector<batch_id> begun;
    for (const auto& batch : each.begun) {
      begun.push_back(batch.batch);
      CHECK(batch.feeds.empty()); // only for a stage that draws the tokens that it waits for
    }
    CHECK(begun == each.ran);
  }
}

TEST_CASE("begun steps are discarded with their epoch") {
  begun_flow f;
  for (int kills = 0; kills < 2; ++kills) {
    f.w.run_some(137 + 41 * kills);
    const auto stage = static_cast<stage_index>(kills % 2);
    f.w.kill_shard(stage);
    f.w.start_shard(stage);
  }
  f.check_all_answered();
}
