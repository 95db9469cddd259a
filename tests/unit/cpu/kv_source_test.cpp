// KV that moves to shards of another cut: sequences continue with the same bits. KV of another
// model, cut or memory is rejected.
#include "runtime/cpu/memory/kv_memory.hpp"
#include "runtime/cpu/memory/kv_source.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace baton;
using namespace baton::testing;
using model::tensor_type;

namespace {

struct memory {
  int fd = ::memfd_create("kv", MFD_CLOEXEC);
  memory() { REQUIRE(fd >= 0); }
  memory(memory&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  memory(const memory&) = delete;
  ~memory() {
    if (fd >= 0)
      ::close(fd);
  }
};

// A pipeline of shards with the given numbers of layers, their KV in files.
struct engine_chain {
  std::vector<memory> files;
  std::vector<std::unique_ptr<cpu::engine_cpu>> stages;

  engine_chain(const tiny_file& tiny, const std::vector<std::uint32_t>& layers,
               cpu::config settings) {
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      settings.kv_file = files.emplace_back().fd;
      stages.push_back(tiny.load(
          settings, model::layer_range{first, layers[i], i == 0, i + 1 == layers.size()}));
      first += layers[i];
    }
  }

  std::vector<cpu::kv_source> sources() const {
    std::vector<cpu::kv_source> all;
    for (const auto& f : files) {
      auto opened = cpu::kv_source::open(f.fd);
      REQUIRE_MESSAGE(opened, opened.error().message);
      all.push_back(*std::move(opened));
    }
    return all;
  }

  void run(const std::vector<part>& parts) {
    const auto batch = batch_of(parts);
    std::span<const float> rows;
    for (const auto& s : stages) {
      const auto out = s->run(batch, rows);
      REQUIRE_MESSAGE(out, out.error().message);
      rows = out->activations;
    }
  }
};

part of(const std::vector<token_id>& tokens, std::uint32_t from, std::uint32_t to,
        std::uint32_t first_block) {
  return {first_block + 1,
          {tokens.begin() + from, tokens.begin() + to},
          from,
          /*samples=*/true,
          first_block};
}

// The runs of layers as text: "0+2 of 0, 2+1 of 1".
std::string text_of(const std::vector<cpu::kv_run>& runs) {
  std::string text;
  for (const auto& r : runs)
    text += fmt::format("{}{}+{} of {}", text.empty() ? "" : ", ", r.layer, r.count,
                        r.from->first_layer());
  return text;
}

const cpu::kv_shape small{2, 1, 16, cpu::kv_format::f16};
constexpr std::uint64_t some_model = 77;

memory labelled(const cpu::kv_part& part, const cpu::kv_shape& shape, std::uint32_t blocks = 4) {
  memory m;
  REQUIRE(cpu::kv_memory::share(shape, blocks, m.fd, part));
  return m;
}

} // namespace

TEST_CASE("a sequence continues with the same bits in shards of another cut") {
  const auto tokens = some_tokens(150);
  const auto others = some_tokens(90, 3);
  struct change {
    std::vector<std::uint32_t> from, to;
  };
  for (const auto& c : {change{{3}, {1, 2}}, change{{2, 1}, {1, 2}}, change{{1, 1, 1}, {3}},
                        change{{1, 2}, {1, 1, 1}}})
    for (const auto format : {cpu::kv_format::f16, cpu::kv_format::q8_0}) {
      const tiny_file tiny({.layers = 3, .type = tensor_type::q4_0});
      auto settings = settings_of();
      settings.kv_cache_dtype = format;
      settings.threads = 2;
      engine_chain before(tiny, c.from, settings);
      engine_chain after(tiny, c.to, settings);
      engine_chain undisturbed(tiny, {3}, settings);
      for (auto* l : {&before, &undisturbed}) {
        l->run({of(tokens, 0, 100, 2), of(others, 0, 64, 8)});
        l->run({of(tokens, 100, 149, 2), of(others, 64, 89, 8)});
      }
      const auto sources = before.sources();
      const std::vector<block_index> blocks{8, 2, 3, 4, 9};
      for (const auto& s : after.stages) {
        const auto taken = s->take_over(sources, blocks);
        REQUIRE_MESSAGE(taken, taken.error().message);
      }
      for (auto* l : {&after, &undisturbed})
        l->run({of(tokens, 149, 150, 2), of(others, 89, 90, 8)});
      for (std::size_t draw = 0; draw < 2; ++draw) {
        const auto expected = undisturbed.stages.back()->logits(draw);
        const std::vector<float> kept(expected.begin(), expected.end());
        CHECK(first_difference(kept, after.stages.back()->logits(draw)) == -1);
      }
    }
}

TEST_CASE("layers come from any shard that has them, in the fewest pieces") {
  std::vector<memory> files;
  files.push_back(labelled({some_model, 0, 0}, {2, 1, 16}));
  files.push_back(labelled({some_model, 2, 0}, {3, 1, 16}));
  files.push_back(labelled({some_model, 5, 0}, {1, 1, 16}));
  std::vector<cpu::kv_source> sources;
  for (const auto& f : files)
    sources.push_back(*cpu::kv_source::open(f.fd));
  const auto runs = [&](std::uint32_t first, std::uint32_t count) {
    const auto found = cpu::runs_of({some_model, first, 0}, {count, 1, 16}, sources);
    return found ? text_of(*found) : found.error().message;
  };
  CHECK(runs(0, 2) == "0+2 of 0");
  CHECK(runs(1, 3) == "1+1 of 0, 2+2 of 2");
  CHECK(runs(0, 6) == "0+2 of 0, 2+3 of 2, 5+1 of 5");
  CHECK(runs(4, 1) == "4+1 of 2");
  CHECK(runs(4, 3).find("layer 6") != std::string::npos);
}

TEST_CASE("a rank takes over KV from the same rank of other stages") {
  std::vector<memory> files;
  std::vector<cpu::kv_source> sources;
  for (const std::uint32_t layer : {0U, 2U})
    for (const std::uint32_t head : {0U, 1U}) {
      files.push_back(labelled({some_model, layer, head}, small));
      sources.push_back(*cpu::kv_source::open(files.back().fd));
    }
  for (const std::uint32_t head : {0U, 1U}) {
    const auto found = cpu::runs_of({some_model, 1, head}, small, sources);
    REQUIRE(found);
    CHECK(text_of(*found) == "1+1 of 0, 2+1 of 2");
    for (const auto& run : *found)
      CHECK(run.from->label().first_kv_head == head);
  }
}

TEST_CASE("KV of another model, cut, shape or type is rejected") {
  const cpu::kv_part own{some_model, 0, 0};
  const auto refused = [&](const memory& file) {
    const auto source = cpu::kv_source::open(file.fd);
    REQUIRE_MESSAGE(source, source.error().message);
    return !cpu::runs_of(own, small, {&*source, 1});
  };
  CHECK_FALSE(refused(labelled(own, small)));
  CHECK(refused(labelled({some_model + 1, 0, 0}, small)));
  CHECK(refused(labelled({some_model, 1, 0}, small)));
  CHECK(refused(labelled({some_model, 0, 1}, small)));
  CHECK(refused(labelled(own, {1, 1, 16})));
  CHECK(refused(labelled(own, {2, 2, 16})));
  CHECK(refused(labelled(own, {2, 1, 32})));
  CHECK(refused(labelled(own, {2, 1, 16, cpu::kv_format::f32})));
}

TEST_CASE("a file that is no KV memory is rejected, whatever it holds") {
  memory empty;
  CHECK_FALSE(cpu::kv_source::open(empty.fd));
  memory zeros;
  REQUIRE(::ftruncate(zeros.fd, 1 << 16) == 0);
  CHECK_FALSE(cpu::kv_source::open(zeros.fd));
  auto bent = labelled({some_model, 0, 0}, small);
  const std::uint64_t huge = UINT64_MAX;
  for (const off_t at : {8 * 2, 8 * 4, 8 * 5, 8 * 6, 8 * 7, 8 * 9}) {
    CAPTURE(at);
    std::uint64_t was = 0;
    REQUIRE(::pread(bent.fd, &was, sizeof was, at) == sizeof was);
    REQUIRE(::pwrite(bent.fd, &huge, sizeof huge, at) == sizeof huge);
    CHECK_FALSE(cpu::kv_source::open(bent.fd));
    REQUIRE(::pwrite(bent.fd, &was, sizeof was, at) == sizeof was);
  }
  CHECK(cpu::kv_source::open(bent.fd));
  const int closed = ::dup(bent.fd);
  ::close(closed);
  CHECK_FALSE(cpu::kv_source::open(closed));
}

TEST_CASE("truncated memory, or memory of another incarnation, is detected") {
  const tiny_file tiny({.layers = 3, .type = tensor_type::q4_0});
  engine_chain before(tiny, {3}, settings_of());
  engine_chain after(tiny, {1, 2}, settings_of());
  before.run({of(some_tokens(100), 0, 100, 0)});
  const auto sources = before.sources();
  const std::vector<block_index> blocks{0, 1};
  REQUIRE(after.stages[1]->take_over(sources, blocks));
  SUBCASE("truncated") {
    REQUIRE(::ftruncate(before.files[0].fd, 4096 + 1000) == 0);
    const auto taken = after.stages[1]->take_over(sources, blocks);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == errc::io_failed);
  }
  SUBCASE("another incarnation") {
    const std::uint64_t incarnation = 12;
    REQUIRE(::pwrite(before.files[0].fd, &incarnation, sizeof incarnation, 8 * 10) ==
            sizeof incarnation);
    const auto taken = after.stages[1]->take_over(sources, blocks);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().message.find("was reset") != std::string::npos);
  }
  SUBCASE("a missing block") {
    const std::vector<block_index> beyond{settings_of().kv_blocks};
    const auto taken = after.stages[1]->take_over(sources, beyond);
    REQUIRE_FALSE(taken);
    CHECK(taken.error().code == errc::invalid_value);
  }
  SUBCASE("the source has fewer blocks") {
    auto settings = settings_of();
    settings.kv_blocks = 32;
    engine_chain larger(tiny, {3}, settings);
    const std::vector<block_index> beyond{20};
    CHECK_FALSE(larger.stages[0]->take_over(sources, beyond));
    CHECK(larger.stages[0]->take_over(sources, blocks));
  }
}
