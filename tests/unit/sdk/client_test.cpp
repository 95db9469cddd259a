// The C++ SDK against a scripted server over real sockets.
#include "schema/limits.hpp"
#include "sdk/cpp/baton/client.hpp"
#include "tests/unit/sdk/connected.hpp"
#include "tests/unit/sdk/fake_server.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

using namespace baton;
using namespace std::chrono_literals;
using baton::test::connected;
using baton::test::fake_server;
using baton::test::patience;
using baton::test::silent;

namespace {

chunk word_chunk(std::uint64_t request, std::string text, finish end = finish::none,
                 std::uint32_t choice = 0) {
  chunk c;
  c.request = request;
  c.ticket = {9};
  c.choice = choice;
  c.text = std::move(text);
  c.finish = end;
  return c;
}

// Answers `generate` with the words, one chunk each, for every choice.
fake_server::script sends_words(std::vector<std::string> words) {
  return [words](fake_server& server, fake_server::peer& to, const message& m) {
    const auto* asked = std::get_if<generate>(&m);
    if (asked == nullptr)
      return;
    server.send(to, granted{asked->request, {9}, {1}});
    for (std::size_t i = 0; i < words.size(); ++i)
      for (std::uint32_t choice = 0; choice < asked->terms.choices; ++choice)
        server.send(to, word_chunk(asked->request, words[i],
                                   i + 1 == words.size() ? finish::stop : finish::none, choice));
  };
}

generate text_question(std::string text) {
  generate g;
  g.model = "tiny";
  g.input = std::move(text);
  return g;
}

} // namespace

TEST_CASE("a stream gives the chunks in order, then nothing, and sends the given parameters") {
  fake_server server(sends_words({"Once", " upon", " a time"}));
  auto c = connected(server);
  auto asked = text_question("Tell me");
  asked.terms.sampling.seed = 42;
  auto s = c.generate(asked);
  REQUIRE(s);
  std::vector<std::string> texts;
  for (;;) {
    auto part = s->next(patience);
    REQUIRE(part);
    if (!*part)
      break;
    texts.push_back((*part)->text);
  }
  CHECK(texts == std::vector<std::string>{"Once", " upon", " a time"});
  CHECK(s->ticket() == ticket_id{9});
  CHECK_FALSE(*s->next(patience));
  CHECK(server.has_received([](const message& m) {
    const auto* g = std::get_if<generate>(&m);
    return g != nullptr && g->model == "tiny" && g->terms.sampling.seed == 42 &&
           std::get<std::string>(g->input) == "Tell me";
  }));
  server.close();
  CHECK(server.faults.empty());
}

TEST_CASE("complete joins the chunks of each choice") {
  fake_server server(sends_words({"a", "b", "c"}));
  auto c = connected(server);
  auto asked = text_question("x");
  asked.terms.choices = 3;
  auto answers = c.complete(asked, patience);
  REQUIRE(answers);
  REQUIRE(answers->size() == 3);
  for (const auto& a : *answers) {
    CHECK(a.text == "abc");
    CHECK(a.finish == finish::stop);
  }
}

TEST_CASE("chat sends the conversation and gives the answer") {
  fake_server server(sends_words({"Hello", "!"}));
  auto c = connected(server);
  auto a = c.chat("tiny", {{"user", "Hi", ""}}, 7, patience);
  REQUIRE(a);
  CHECK(a->text == "Hello!");
  CHECK(server.has_received([](const message& m) {
    const auto* g = std::get_if<generate>(&m);
    return g != nullptr && g->terms.max_tokens_given && g->terms.stop.max_tokens == 7 &&
           std::get<chat_prompt>(g->input).at(0).content == "Hi";
  }));
}

TEST_CASE("models, tokenize, detokenize and status come back as values") {
  fake_server server([](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* l = std::get_if<list_models>(&m)) {
      models answer{l->request, {model_card{}}};
      answer.cards[0].name = "tiny";
      d.send(to, answer);
    } else if (const auto* t = std::get_if<tokenize>(&m)) {
      d.send(to, tokenized{t->request, {1, 2}, {"a", "b"}, 99, {}});
    } else if (const auto* b = std::get_if<detokenize>(&m)) {
      d.send(to, b->ids.empty() ? detokenized{b->request, "", fail(errc::invalid_value, "no ids")}
                                : detokenized{b->request, "ab", {}});
    } else if (const auto* q = std::get_if<query_status>(&m)) {
      cluster_status answer;
      answer.request = q->request;
      answer.phase = phase::ready;
      d.send(to, answer);
    }
  });
  auto c = connected(server);
  auto listed = c.models();
  REQUIRE(listed);
  CHECK(listed->at(0).name == "tiny");
  auto ids = c.tokenize(std::string("ab"));
  REQUIRE(ids);
  CHECK(ids->ids == std::vector<token_id>{1, 2});
  CHECK(*c.detokenize({1, 2}) == "ab");
  auto none = c.detokenize({});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::invalid_value);
  auto stands = c.status();
  REQUIRE(stands);
  CHECK(stands->phase == phase::ready);
}

TEST_CASE("a rejected request gives the server's reason") {
  fake_server server([](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m))
      d.send(to, rejected{g->request, {}, fail(errc::overloaded, "48 wait already"), 1500ms, 48});
  });
  auto c = connected(server);
  auto answers = c.complete(text_question("x"), patience);
  REQUIRE_FALSE(answers);
  CHECK(answers.error().code == errc::overloaded);
  CHECK(answers.error().message == "48 wait already");
}

TEST_CASE("a choice that fails is an error of complete, with the failure's reason") {
  fake_server server([](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m)) {
      auto last = word_chunk(g->request, "half", finish::failed);
      last.failure = fail(errc::pipeline_lost, "no node can take the layers");
      d.send(to, last);
    }
  });
  auto c = connected(server);
  auto answers = c.complete(text_question("x"), patience);
  REQUIRE_FALSE(answers);
  CHECK(answers.error().code == errc::pipeline_lost);
}

TEST_CASE("a request beyond the limits is rejected before it is sent") {
  fake_server server(silent);
  auto c = connected(server);
  auto asked = text_question("x");
  asked.terms.choices = 100000;
  auto s = c.generate(asked);
  REQUIRE_FALSE(s);
  CHECK(s.error().param == "n");
}

TEST_CASE("a cancel before the ticket is known is sent once it is") {
  std::optional<generate> waiting;
  fake_server server([&waiting](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m))
      waiting = *g;
    if (const auto* l = std::get_if<list_models>(&m); l != nullptr && waiting) {
      d.send(to, granted{waiting->request, {31}, {1}});
      d.send(to, models{l->request, {}});
    }
    if (const auto* ended = std::get_if<cancel>(&m))
      d.send(to, word_chunk(waiting->request, ended->ticket == ticket_id{31} ? "ended" : "whose?",
                            finish::cancelled));
  });
  auto c = connected(server);
  auto s = c.generate(text_question("x"));
  REQUIRE(s);
  s->cancel();
  REQUIRE(c.models()); // makes the server grant the ticket
  auto part = s->next(patience);
  REQUIRE(part);
  REQUIRE(*part);
  CHECK((*part)->finish == finish::cancelled);
  CHECK((*part)->text == "ended");
}

TEST_CASE("a stream dropped before its end is cancelled, a finished one is not") {
  fake_server server([](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m)) {
      const bool endless = std::get<std::string>(g->input) == "endless";
      d.send(to, granted{g->request, {endless ? 50u : 60u}, {1}});
      d.send(to, word_chunk(g->request, "x", endless ? finish::none : finish::stop));
    }
  });
  auto c = connected(server);
  REQUIRE(c.complete(text_question("short"), patience));
  {
    auto s = c.generate(text_question("endless"));
    REQUIRE(s);
    REQUIRE(s->next(patience));
  }
  const auto cancels = [](std::uint64_t ticket) {
    return [ticket](const message& m) {
      const auto* ended = std::get_if<cancel>(&m);
      return ended != nullptr && ended->ticket == ticket_id{ticket};
    };
  };
  CHECK(server.has_received(cancels(50)));
  const auto all = server.received();
  CHECK(std::none_of(all.begin(), all.end(), cancels(60)));
}

TEST_CASE("next returns deadline_exceeded on a timeout, and can be called again") {
  std::optional<generate> waiting;
  fake_server server([&waiting](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* g = std::get_if<generate>(&m))
      waiting = *g;
    if (const auto* l = std::get_if<list_models>(&m)) {
      d.send(to, word_chunk(waiting->request, "late", finish::stop));
      d.send(to, models{l->request, {}});
    }
  });
  auto c = connected(server);
  auto s = c.generate(text_question("x"));
  REQUIRE(s);
  auto early = s->next(10ms);
  REQUIRE_FALSE(early);
  CHECK(early.error().code == errc::deadline_exceeded);
  REQUIRE(c.models());
  auto late = s->next(patience);
  REQUIRE(late);
  CHECK((*late)->text == "late");
}

TEST_CASE("an unread stream fails alone: the others and the credit continue") {
  constexpr int too_many = 12; // 1 MiB each
  std::atomic<std::uint64_t> credited_bytes = 0;
  fake_server server([&](fake_server& d, fake_server::peer& to, const message& m) {
    if (const auto* back = std::get_if<credit>(&m))
      credited_bytes = back->bytes_total;
    const auto* g = std::get_if<generate>(&m);
    if (g == nullptr)
      return;
    const bool is_endless = std::get<std::string>(g->input) == "endless";
    d.send(to, granted{g->request, {is_endless ? 50u : 60u}, {1}});
    for (int i = 0; is_endless && i < too_many; ++i)
      d.send(to, word_chunk(g->request, std::string(1 << 20, 'x')));
    if (!is_endless)
      d.send(to, word_chunk(g->request, "ok", finish::stop));
  });
  auto c = connected(server);
  auto unread = c.generate(text_question("endless"));
  REQUIRE(unread);
  CHECK(server.has_received([](const message& m) {
    const auto* stop = std::get_if<cancel>(&m);
    return stop != nullptr && stop->ticket == ticket_id{50};
  }));
  auto other = c.complete(text_question("short"), patience);
  REQUIRE(other);
  CHECK(other->at(0).text == "ok");
  int read = 0;
  auto part = unread->next(patience);
  for (; part && *part; part = unread->next(patience))
    ++read;
  REQUIRE_FALSE(part);
  CHECK(part.error().code == errc::slow_reader);
  CHECK(read > 0);
  CHECK(read < too_many);
  server.close();
  CHECK(credited_bytes > std::uint64_t{too_many - 1} << 20);
}

TEST_CASE("credit returns as chunks arrive: a small window passes any number of them") {
  // The server never has more than the window in flight, and continues when credit arrives.
  constexpr std::uint64_t window = 2000;
  constexpr int chunks = 300;
  struct {
    std::uint64_t request = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t credited_bytes = 0;
    int sent = 0;
  } state;
  const auto go_on = [&state](fake_server& d, fake_server::peer& to) {
    while (state.sent < chunks && state.sent_bytes - state.credited_bytes < window) {
      ++state.sent;
      auto c =
          word_chunk(state.request, "word ", state.sent == chunks ? finish::length : finish::none);
      state.sent_bytes += d.send(to, c);
    }
  };
  fake_server server(
      [&](fake_server& d, fake_server::peer& to, const message& m) {
        if (const auto* g = std::get_if<generate>(&m))
          state.request = g->request;
        if (const auto* back = std::get_if<credit>(&m))
          state.credited_bytes = back->bytes_total;
        go_on(d, to);
      },
      {.window_bytes = window});
  auto c = connected(server);
  auto answers = c.complete(text_question("x"), patience);
  REQUIRE_MESSAGE(answers, answers.error().message);
  CHECK(answers->at(0).text.size() == 5 * chunks);
  server.close();
  CHECK(state.credited_bytes <= state.sent_bytes);
}

TEST_CASE("a rejected hello is the error of connect") {
  fake_server server(silent, {.refuses_hello = fail(errc::draining, "the gateway is going")});
  auto c = client::connect(server.endpoint());
  REQUIRE_FALSE(c);
  CHECK(c.error().code == errc::draining);
}

TEST_CASE("without a listener or an answer, connect ends with link_down in time") {
  client_options options;
  options.connect_timeout = 50ms;
  auto unreachable = client::connect("ipc:///tmp/baton-without-server", options);
  REQUIRE_FALSE(unreachable);
  CHECK(unreachable.error().code == errc::link_down);
  fake_server server(silent, {.answers_hello = false});
  auto mute = client::connect(server.endpoint(), options);
  REQUIRE_FALSE(mute);
  CHECK(mute.error().code == errc::link_down);
  auto nonsense = client::connect("carrier-pigeon://roof", options);
  REQUIRE_FALSE(nonsense);
  CHECK(nonsense.error().code == errc::bad_config);
}

TEST_CASE("a server that disconnects ends the open streams at once, and every later call") {
  auto server = std::make_unique<fake_server>(silent);
  auto c = connected(*server, {.reconnect_timeout = 0ms});
  auto s = c.generate(text_question("x"));
  REQUIRE(s);
  REQUIRE(
      server->has_received([](const message& m) { return std::holds_alternative<generate>(m); }));
  server.reset();
  auto part = s->next(4000ms); // below silence_max: the disconnect is what ends it
  REQUIRE_FALSE(part);
  CHECK(part.error().code == errc::link_down);
  CHECK_FALSE(c.is_open());
  CHECK(c.models().error().code == errc::link_down);
}

TEST_CASE("a silent server counts as lost after silence_max") {
  fake_server server(silent, {.sends_heartbeats = false});
  client_options options;
  options.silence_max = 100ms;
  options.heartbeat_interval = 20ms;
  options.reconnect_timeout = 0ms;
  auto c = connected(server, options);
  auto s = c.generate(text_question("x"));
  REQUIRE(s);
  auto part = s->next(patience);
  REQUIRE_FALSE(part);
  CHECK(part.error().code == errc::link_down);
}

TEST_CASE("garbage, a sequence gap and another server incarnation lose the link") {
  for (const int fault : {0, 1, 2}) {
    CAPTURE(fault);
    const auto spoil = [fault](fake_server& d, fake_server::peer& to, const message& m) {
      if (!std::holds_alternative<generate>(m))
        return;
      envelope e;
      e.source = {77};
      e.source_incarnation = {fault == 2 ? 89u : 88u};
      e.sequence = to.sequence + (fault == 1 ? 2 : 1);
      auto made = encode(e, heartbeat{});
      if (fault == 0)
        made.body.size_bytes -= 8;
      d.send_raw(to, made);
    };
    fake_server server(spoil, {.sends_heartbeats = false});
    auto c = connected(server, {.reconnect_timeout = 0ms});
    auto s = c.generate(text_question("x"));
    REQUIRE(s);
    auto part = s->next(patience);
    REQUIRE_FALSE(part);
    CHECK(part.error().code == (fault == 0 ? errc::bad_frame : errc::link_down));
  }
}

TEST_CASE("many threads share one client, each with its own stream") {
  fake_server server(sends_words({"1", "2", "3", "4"}));
  auto c = connected(server);
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&c, &good] {
        for (int round = 0; round < 20; ++round)
          if (auto answers = c.complete(text_question("x"), patience);
              answers && answers->at(0).text == "1234")
            ++good;
      });
  }
  CHECK(good == 160);
  server.close();
  CHECK(server.faults.empty());
}
