// Goal: a step that is begun runs ahead of time, and holds no resources if it is dropped. Method:
// its KV writes, read by a step that did not write them; scarce memory for outgoing rows. The
// conformance check (tests/conformance/begun_steps.cpp) covers its other effects.
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton;
using namespace baton::testing;

namespace {

micro_batch numbered(std::uint64_t number, const part& one) {
  auto batch = batch_of({one});
  batch.batch = {number};
  return batch;
}

const part beginning{.sequence = 1, .tokens = {7, 8, 9}, .blocks_from = 0};
const part behind_it{.sequence = 1, .tokens = {4}, .position = 3, .blocks_from = 0};
const part other{.sequence = 2, .tokens = {5, 6}, .blocks_from = 4};

} // namespace

TEST_CASE("a step that is begun is executed, whether or not it is run") {
  const auto plain = open_engine("plain");
  const tiny_file tiny(tiny_llama{.layers = 2});
  for (const std::string device : {"plain", "plain-late", "plain-still"}) {
    CAPTURE(device);
    auto settings = plugin_settings(device);
    settings.keeps_logits = true;
    const auto begun = load_plugin(plain, tiny, settings);
    const auto asked = load_plugin(plain, tiny, settings);
    REQUIRE(asked->run(numbered(1, beginning), {}));
    REQUIRE(asked->run(numbered(2, behind_it), {}));
    const bool is_begun = begun->begin(numbered(1, beginning), {});
    CHECK(is_begun == (device != "plain-still"));
    CHECK(is_begun == (begun->begun_max() > 0));
    const auto out = begun->run(numbered(3, behind_it), {});
    const bool is_there =
        out.has_value() && first_difference(asked->logits(0), begun->logits(0)) == -1;
    CHECK(is_there == is_begun);
  }
}

TEST_CASE("two steps may be begun, and either may be dropped") {
  const tiny_file tiny(tiny_llama{.layers = 2});
  const auto engine = load_plugin(open_engine("plain"), tiny, plugin_settings("plain-late"));
  CHECK_FALSE(engine->is_busy());
  CHECK(engine->begin(numbered(1, other), {}));
  CHECK(engine->begin(numbered(2, beginning), {}));
  CHECK_FALSE(engine->begin(numbered(3, behind_it), {}));
  CHECK(engine->is_busy());
  while (engine->is_busy()) {
  }
  REQUIRE(engine->run(numbered(1, other), {}));
  CHECK(engine->begin(numbered(3, behind_it), {}));
  REQUIRE(engine->run(numbered(2, beginning), {}));
  REQUIRE(engine->run(numbered(3, behind_it), {}));
  CHECK_FALSE(engine->is_busy());
}

TEST_CASE("a step may begin before its token is drawn, where the device draws it") {
  const tiny_file tiny(tiny_llama{.layers = 2});
  const auto plain = open_engine("plain");
  const auto engine = load_plugin(plain, tiny, plugin_settings("plain-late"));
  auto to_come = numbered(2, behind_it);
  to_come.tokens[0] = placeholder_token;
  to_come.feeds = {{0, 0, {1}}};
  CHECK_FALSE(engine->begin(to_come, {})); // no step precedes it
  CHECK(engine->begin(numbered(1, beginning), {}));
  const auto refused = [&](const std::function<void(micro_batch&)>& change) {
    auto other_batch = to_come;
    change(other_batch);
    CHECK_FALSE(engine->begin(other_batch, {}));
  };
  refused([](micro_batch& b) { b.feeds[0].batch = {7}; });
  refused([](micro_batch& b) { b.feeds[0].draw = 1; });
  refused([](micro_batch& b) { b.feeds[0].row = 1; });
  refused([](micro_batch& b) { b.epoch = {1}; });
  refused([](micro_batch& b) { b.feeds.clear(); });
  refused([](micro_batch& b) { b.draws[0].sampling.repetition_penalty = 1.1F; });
  CHECK(engine->begin(to_come, {}));
  const auto first = engine->run(numbered(1, beginning), {});
  REQUIRE_MESSAGE(first, first.error().message);
  auto filled = behind_it;
  filled.tokens = {first->samples.at(0).token};
  const auto second = engine->run(numbered(2, filled), {});
  REQUIRE_MESSAGE(second, second.error().message);
  const auto alone = load_plugin(plain, tiny, plugin_settings("plain"));
  REQUIRE(alone->run(numbered(1, beginning), {}));
  const auto expected = alone->run(numbered(2, filled), {});
  REQUIRE(expected);
  CHECK(second->samples == expected->samples);
  // Logits that the shard draws from are not on the device.
  auto shown = numbered(3, beginning);
  shown.draws[0].sampling.logprobs = 1;
  CHECK(engine->begin(shown, {}));
  to_come.batch = {4};
  to_come.feeds[0].batch = {3};
  CHECK_FALSE(engine->begin(to_come, {}));
}

TEST_CASE("a step with copies of swap space is not begun ahead of its time") {
  const tiny_file tiny(tiny_llama{.layers = 2});
  const auto engine = load_plugin(open_engine("plain"), tiny, plugin_settings("plain-late"));
  auto swapping = numbered(1, beginning);
  swapping.copies = {{0, 1, true}};
  CHECK_FALSE(engine->begin(swapping, {}));
  REQUIRE(engine->run(swapping, {}));
}

TEST_CASE("a begun step that is dropped returns its rows") {
  const auto plain = open_engine("plain");
  const tiny_file tiny(tiny_llama{.layers = 2});
  auto settings = plugin_settings("plain-late");
  settings.rows_max = 1024; // the memory for outgoing rows is proportional
  const auto first = load_plugin(plain, tiny, settings, model::layer_range{0, 1, true, false});
  for (std::uint64_t i = 1; i <= 60; ++i) {
    CHECK(first->begin(numbered(1000 + i, beginning), {}));
    const auto out = first->run(numbered(i, other), {});
    REQUIRE_MESSAGE(out, out.error().message);
    CHECK(out->owner); // otherwise no memory is left to lend
  }
}
