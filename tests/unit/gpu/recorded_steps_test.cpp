// Goal: steps of one row per sequence are recorded once for each size, and their results stay the
// same. Method: the table of sizes on a device that counts. The stage on the plain device, which
// keeps its calls, and on devices that cannot record or fail to.
#include "runtime/gpu/stage/recorded_steps.hpp"
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/sequences.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;
using namespace baton::gpu;

// Every device defines its own.
baton::gpu::meaning baton::gpu::meaning_of(const std::exception& thrown) {
  return {plugin::status::internal, thrown.what()};
}

namespace {

struct counting_device final : device {
  int recorded = 0, replayed = 0;
  bool fails = false;

  struct counted final : recording {
    explicit counted(counting_device& of) : device_(of) {}
    void replay() override { ++device_.replayed; }
    counting_device& device_;
  };

  std::string name() const override { return "counting"; }
  bool is_exact() const noexcept override { return true; }
  const kernel_table& kernels() const noexcept override { return host_kernels(); }
  void* stream() noexcept override { return nullptr; }
  buffer take(std::size_t) override { return {}; }
  buffer take_host(std::size_t) override { return {}; }
  void upload(void*, const void*, std::size_t) override {}
  void download(void*, const void*, std::size_t) override {}
  void zero(void*, std::size_t) override {}
  void upload_later(void*, const void*, std::size_t) override {}
  void download_later(void*, const void*, std::size_t) override {}
  void copy_later(void*, const void*, std::size_t) override {}
  void upload_beside(void*, const void*, std::size_t) override {}
  void download_beside(void*, const void*, std::size_t) override {}
  std::unique_ptr<mark> set_mark() override { return std::make_unique<passed_already>(); }
  bool is_asynchronous() const noexcept override { return false; }
  void multiply(const product&) override {}
  std::uint32_t splits_for(std::uint64_t) const noexcept override { return 1; }
  bool can_record() const noexcept override { return true; }
  std::unique_ptr<recording> record(const std::function<void()>& work) override {
    work();
    if (fails)
      throw std::runtime_error("no more graphs");
    ++recorded;
    return std::make_unique<counted>(*this);
  }
  std::unique_ptr<rank_sums> sums(const plugin::settings&, const plugin::host&) override {
    return nullptr;
  }
};

struct recorder {
  counting_device device;
  std::vector<std::string> logged;
  recorded_steps steps{device, [this](const std::string& line) { logged.push_back(line); }};
  int worked = 0;

  void run(std::uint32_t size, std::uint64_t memory = 0) {
    steps.run(size, memory, [this] { ++worked; });
  }
};

struct driven {
  std::unique_ptr<plugin::plugin_engine> engine;
  std::vector<std::string> logged;
};

void load_driven(driven& out, const family_golden& golden, const std::string& device,
                 bool is_eager = false, std::optional<model::layer_range> range = {}) {
  const auto library = plugin::library::open(engines_directory() / "engine_plain.so");
  REQUIRE_MESSAGE(library, library.error().message);
  plugin::config c;
  c.device = device;
  c.blocks = 16;
  c.rows_max = 6;
  c.is_eager = is_eager;
  c.keeps_logits = true;
  c.log_line = [&out](const std::string& line) { out.logged.push_back(line); };
  auto engine = plugin::plugin_engine::load(*library, *golden.file, golden.description,
                                            range.value_or(model::whole(golden.description)), c);
  REQUIRE_MESSAGE(engine, engine.error().message);
  out.engine = *std::move(engine);
}

// Runs the first `count` sequences side by side, one row each, each at its next position.
struct sequences {
  std::vector<std::uint32_t> next = std::vector<std::uint32_t>(5);

  micro_batch step(std::uint32_t count) {
    std::vector<part> parts;
    for (std::uint32_t i = 0; i < count; ++i) {
      parts.push_back({.sequence = i + 1,
                       .tokens = {static_cast<token_id>((5 + 7 * i + 3 * next[i]) % 60)},
                       .position = next[i],
                       .blocks_from = 2 * i});
      ++next[i];
    }
    return batch_of(parts);
  }
};

using all_logits = std::vector<std::vector<float>>;

// Steps that grow and shrink while sequences continue, with prompts between them.
all_logits play(plugin::plugin_engine& engine) {
  all_logits out;
  const auto run = [&](const micro_batch& batch) {
    const auto step = engine.run(batch, {});
    REQUIRE_MESSAGE(step, step.error().message);
    for (std::size_t i = 0; i < batch.draws.size(); ++i)
      out.emplace_back(engine.logits(i).begin(), engine.logits(i).end());
  };
  sequences all;
  for (std::uint32_t i = 0; i < 12; ++i) {
    run(all.step(5));
    if (i % 4 == 3)
      run(batch_of({{.sequence = 9, .tokens = {1, 2, 3, 4}, .blocks_from = 12}}));
  }
  for (std::uint32_t i = 0; i < 60; ++i) // until the first one enters its second block
    run(all.step(i % 3 + 1));
  return out;
}

} // namespace

TEST_CASE("a step is padded to the next size, up to the maximum number of rows") {
  for (const auto& [rows, size] : {std::pair(1U, 1U),
                                   {2U, 2U},
                                   {3U, 4U},
                                   {4U, 4U},
                                   {5U, 8U},
                                   {8U, 8U},
                                   {9U, 16U},
                                   {63U, 64U},
                                   {64U, 64U},
                                   {65U, 96U},
                                   {256U, 256U},
                                   {257U, 288U},
                                   {512U, 512U},
                                   {513U, 0U}})
    CHECK(recorded_size(rows, 4096) == size);
  CHECK(recorded_size(5, 6) == 6);
  CHECK(recorded_size(7, 6) == 0);
}

TEST_CASE("a size is run, recorded, replayed, and recorded again when memory has moved") {
  recorder r;
  r.run(4);
  CHECK(r.worked == 1);
  CHECK(r.device.recorded == 0);
  r.run(4);
  r.run(4);
  CHECK(r.worked == 2); // the second time during recording
  CHECK(r.device.recorded == 1);
  CHECK(r.device.replayed == 2);
  r.run(8); // each size starts separately
  CHECK(r.worked == 3);
  r.run(4, 1);
  CHECK(r.worked == 4);
  CHECK(r.device.replayed == 2);
  r.run(4, 1);
  CHECK(r.device.recorded == 2);
  CHECK(r.device.replayed == 3);
  CHECK(r.logged == std::vector<std::string>(2, "recorded a step of 4 rows"));
}

TEST_CASE("a recording failure is logged once, and all later steps run unrecorded") {
  recorder r;
  r.run(1);
  r.device.fails = true;
  r.run(1);
  CHECK(r.worked == 3); // again, since recording executes nothing
  CHECK(!r.steps.is_on());
  r.device.fails = false;
  for (const std::uint32_t size : {1U, 1U, 2U, 2U})
    r.run(size);
  CHECK(r.worked == 7);
  CHECK(r.device.recorded == 0);
  REQUIRE(r.logged.size() == 1);
  CHECK(r.logged[0].find("of 1 rows could not be recorded: no more graphs") != std::string::npos);
}

TEST_CASE("recorded steps give the bits of unrecorded steps") {
  for (const auto* name : {"llama3", "gemma2", "qwen3"}) {
    CAPTURE(name);
    const family_golden golden(name);
    driven still, recorded, torn, eager;
    load_driven(still, golden, "plain-still");
    load_driven(recorded, golden, "plain");
    load_driven(torn, golden, "plain-torn");
    load_driven(eager, golden, "plain", /*is_eager=*/true);
    const auto expected = play(*still.engine);
    for (auto* each : {&recorded, &torn, &eager}) {
      const auto found = play(*each->engine);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        REQUIRE(first_difference(expected[i], found[i]) == -1);
    }
    CHECK(still.logged.empty());
    CHECK(eager.logged.empty());
    CHECK(torn.logged.size() == 1);
    // Sizes 6 (for five rows), 1, 2 and 4 (for three), some of them again when memory has moved.
    for (const auto* size : {"6", "1", "2", "4"})
      CHECK(std::count(recorded.logged.begin(), recorded.logged.end(),
                       fmt::format("recorded a step of {} rows", size)) >= 1);
    CHECK(recorded.logged.size() <= 8);
  }
}

TEST_CASE("with a library's attention, recorded steps give the bits of unrecorded steps") {
  // The library checks that each step's tables match its plan, in replayed steps too.
  for (const auto* name : {"llama3", "gemma2"})
    for (const auto* device : {"plain-paged", "plain-prompts"}) {
      CAPTURE(name);
      const family_golden golden(name);
      driven recorded, eager;
      load_driven(recorded, golden, device);
      load_driven(eager, golden, device, /*is_eager=*/true);
      const auto expected = play(*eager.engine), found = play(*recorded.engine);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        REQUIRE(first_difference(expected[i], found[i]) == -1);
      REQUIRE(eager.logged.size() == 1); // which rows use which attention
      CHECK(eager.logged[0].starts_with("attention: plain loops for prompts"));
      CHECK(std::count(recorded.logged.begin(), recorded.logged.end(),
                       "recorded a step of 6 rows") >= 1);
    }
}

TEST_CASE("stages of a pipeline record their parts, with activations of fewer rows than the size") {
  const family_golden golden("llama3");
  driven whole, first, second;
  load_driven(whole, golden, "plain-still");
  const auto layers = golden.description.layer_count;
  load_driven(first, golden, "plain", false, model::layer_range{0, 1, true, false});
  load_driven(second, golden, "plain", false, model::layer_range{1, layers - 1, false, true});
  sequences all;
  for (const std::uint32_t count : {5U, 3U, 5U, 3U, 5U, 3U}) {
    const auto batch = all.step(count);
    const auto expected = whole.engine->run(batch, {});
    REQUIRE_MESSAGE(expected, expected.error().message);
    const auto middle = first.engine->run(batch, {});
    REQUIRE_MESSAGE(middle, middle.error().message);
    CHECK(middle->activations.size() == batch.rows() * golden.description.hidden_size);
    REQUIRE(second.engine->run(batch, middle->activations));
    for (std::size_t i = 0; i < batch.draws.size(); ++i)
      REQUIRE(first_difference(whole.engine->logits(i), second.engine->logits(i)) == -1);
  }
  CHECK(!first.logged.empty());
  CHECK(!second.logged.empty());
}
