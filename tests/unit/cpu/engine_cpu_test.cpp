// Goal: the contract of the engine interface. Method: tiny models with random weights, every tensor
// type and awkward shapes. Logits are compared by bits between ways to run the same sequence, and
// within a tolerance with a plain float32 forward pass.
#include "tests/support/reference_llama.hpp"
#include "tests/unit/cpu/kv_pages.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>

using namespace baton;
using namespace baton::testing;
using model::tensor_type;

namespace {

std::vector<tiny_llama> engine_shapes() {
  std::vector<tiny_llama> out;
  for (const auto type : {tensor_type::f32, tensor_type::q8_0, tensor_type::q4_0, tensor_type::q5_0,
                          tensor_type::q5_1, tensor_type::iq4_nl, tensor_type::mxfp4})
    out.push_back({.type = type});
  // Heads of 48, one KV head, widths that are no whole panels.
  out.push_back({.hidden = 96,
                 .heads = 2,
                 .kv_heads = 1,
                 .ffn = 160,
                 .vocab = 333,
                 .type = tensor_type::f16});
  out.push_back({.hidden = 96,
                 .heads = 6,
                 .kv_heads = 3,
                 .ffn = 32,
                 .vocab = 301,
                 .type = tensor_type::bf16,
                 .has_tied_embeddings = true});
  // The default model's ratios: three queries per KV head, tied Q8_0 embeddings.
  out.push_back({.hidden = 288,
                 .heads = 9,
                 .kv_heads = 3,
                 .ffn = 96,
                 .type = tensor_type::q4_1,
                 .embedding_type = tensor_type::q8_0,
                 .has_tied_embeddings = true});
  // Eight queries per KV head: more than one pass of attention.
  out.push_back({.hidden = 128, .heads = 8, .kv_heads = 1, .type = tensor_type::q4_1});
  for (const auto type :
       {tensor_type::q4_k, tensor_type::q5_k, tensor_type::q6_k, tensor_type::q2_k,
        tensor_type::q3_k, tensor_type::iq4_xs, tensor_type::tq1_0, tensor_type::tq2_0,
        tensor_type::iq3_s, tensor_type::iq2_s})
    out.push_back({.hidden = 256,
                   .heads = 1,
                   .kv_heads = 1,
                   .ffn = 256,
                   .type = type,
                   .embedding_type = tensor_type::q8_0});
  return out;
}

} // namespace

TEST_CASE("logits have the same bits however a sequence is cut into steps") {
  const auto tokens = some_tokens(150);
  for (const tiny_llama& shape : engine_shapes()) {
    const tiny_file tiny(shape);
    CAPTURE(tiny.description.file_type);
    CAPTURE(shape.hidden);
    for (const auto format : kv_formats) {
      CAPTURE(cpu::name_of(format));
      auto settings = settings_of(shape.hidden == 64 ? 16 : 8);
      settings.kv_cache_dtype = format;
      const auto engine = tiny.load(settings);
      const auto one_by_one = run_in_steps(*engine, tokens, {1});
      REQUIRE(one_by_one.size() == tokens.size());
      check_same(one_by_one, run_in_steps(*engine, tokens, {tokens.size()}));
      check_same(one_by_one, run_in_steps(*engine, tokens, {7, 64, 30, 49}));
      check_same(one_by_one, run_in_steps(*engine, tokens, {63, 2}));
      check_same(one_by_one, run_in_steps(*engine, tokens, {13}));
    }
  }
}

TEST_CASE("logits have the same bits on every instruction set and number of threads") {
  const auto tokens = some_tokens(90);
  for (const tiny_llama& shape : engine_shapes()) {
    const tiny_file tiny(shape);
    CAPTURE(tiny.description.file_type);
    for (const auto& [bits, format] : {std::pair(8U, cpu::kv_format::f16),
                                       {16U, cpu::kv_format::f16},
                                       {16U, cpu::kv_format::f32},
                                       {16U, cpu::kv_format::q8_0}}) {
      logits_by_position first;
      for (const auto which : available_isas())
        for (const std::uint32_t threads : {1U, 3U}) {
          auto settings = settings_of(bits);
          settings.threads = threads;
          settings.forced_isa = which;
          settings.kv_cache_dtype = format;
          const auto found = run_in_steps(*tiny.load(settings), tokens, {17});
          if (first.empty())
            first = found;
          CAPTURE(cpu::name_of(which));
          CAPTURE(cpu::name_of(format));
          CAPTURE(threads);
          check_same(first, found);
        }
    }
  }
}

TEST_CASE("a sequence's logits do not depend on the rows beside it") {
  const auto own = some_tokens(100), other = some_tokens(200, 1), third = some_tokens(64, 2);
  for (const auto& [type, format] : {std::pair(tensor_type::q4_1, cpu::kv_format::f16),
                                     {tensor_type::q4_1, cpu::kv_format::q8_0},
                                     {tensor_type::f16, cpu::kv_format::f32}}) {
    const tiny_file tiny({.type = type});
    auto settings = settings_of();
    settings.threads = 2;
    settings.kv_cache_dtype = format;
    const auto engine = tiny.load(settings);
    const auto alone = run_in_steps(*engine, own, {1});
    const auto piece = [](const std::vector<token_id>& all, std::uint32_t from, std::uint32_t to) {
      return std::vector<token_id>(all.begin() + from, all.begin() + to);
    };
    logits_by_position mixed;
    const auto step = [&](const std::vector<part>& parts, std::size_t draw,
                          std::uint32_t position) {
      run_and_keep(*engine, parts, draw, mixed, position);
    };
    // `own` uses blocks 8.., the others use others; its rows come first, last and in the middle.
    step({{2, piece(other, 0, 70), 0, false, 2}, {1, piece(own, 0, 40), 0, true, 8}}, 0, 39);
    step({{1, piece(own, 40, 41), 40, true, 8}, {2, piece(other, 70, 71), 70, true, 2}}, 0, 40);
    step({{3, third, 0, true, 0},
          {1, piece(own, 41, 42), 41, true, 8},
          {2, piece(other, 71, 150), 71, true, 2}},
         1, 41);
    step({{2, piece(other, 150, 200), 150, true, 2}, {1, piece(own, 42, 100), 42, true, 8}}, 1, 99);
    check_same(alone, mixed);
  }
}

TEST_CASE("the logits behind each draft token equal those of a separate step") {
  const auto tokens = some_tokens(80);
  const tiny_file tiny({.type = tensor_type::q4_1});
  const auto engine = tiny.load(settings_of());
  const auto one_by_one = run_in_steps(*engine, tokens, {1});
  const std::vector<token_id> first(tokens.begin(), tokens.begin() + 70);
  const std::vector<token_id> rest(tokens.begin() + 70, tokens.end());
  run_in_steps(*engine, first, {70});
  const auto step = engine->run(batch_of({{.tokens = rest, .position = 70, .drafts = 6}}), {});
  REQUIRE(step);
  CHECK(step->samples.size() == 7);
  logits_by_position found;
  for (std::uint32_t i = 0; i < 7; ++i)
    keep(found, 73 + i, engine->logits(i));
  check_same(one_by_one, found);
}

TEST_CASE("a repeated step gives the same bits, and so does a reused block") {
  const tiny_file tiny({.type = tensor_type::q4_1});
  const auto tokens = some_tokens(80);
  for (const auto format : kv_formats) {
    auto settings = settings_of();
    settings.kv_cache_dtype = format;
    const auto engine = tiny.load(settings);
    const auto fresh = run_in_steps(*engine, tokens, {40});
    run_in_steps(*engine, some_tokens(128, 5), {64}); // leaves other keys and values
    check_same(fresh, run_in_steps(*engine, tokens, {40}));
    part last{1, {tokens.back()}, 79};
    for (int i = 0; i < 3; ++i) {
      REQUIRE(engine->run(batch_of({last}), {}));
      CHECK(first_difference(fresh.at(79), engine->logits(0)) == -1);
    }
  }
}

TEST_CASE("two stages give the bits of the whole model") {
  const auto tokens = some_tokens(70);
  for (const auto& [is_tied, format] : {std::pair(false, cpu::kv_format::f16),
                                        {true, cpu::kv_format::f16},
                                        {true, cpu::kv_format::f32},
                                        {true, cpu::kv_format::q8_0}}) {
    const tiny_file tiny({.layers = 3, .type = tensor_type::q4_0, .has_tied_embeddings = is_tied});
    auto settings = settings_of();
    settings.kv_cache_dtype = format;
    const auto whole = tiny.load(settings);
    const auto expected = run_in_steps(*whole, tokens, {33});
    const auto first = tiny.load(settings, model::layer_range{0, 2, true, false});
    const auto second = tiny.load(settings, model::layer_range{2, 1, false, true});
    CHECK(first->limits().model_hash == whole->limits().model_hash);
    CHECK(second->limits().model_hash == whole->limits().model_hash);
    logits_by_position found;
    for (std::uint32_t at = 0; at < tokens.size(); at += 33) {
      const auto end = std::min<std::size_t>(at + 33, tokens.size());
      const auto batch = batch_of(
          {{1, {tokens.begin() + at, tokens.begin() + static_cast<std::ptrdiff_t>(end)}, at}});
      const auto middle = first->run(batch, {});
      REQUIRE_MESSAGE(middle, middle.error().message);
      CHECK(middle->samples.empty());
      const auto out = second->run(batch, middle->activations);
      REQUIRE_MESSAGE(out, out.error().message);
      CHECK(out->activations.empty());
      CHECK(out->samples.size() == 1);
      keep(found, static_cast<std::uint32_t>(end - 1), second->logits(0));
    }
    check_same(expected, found);
  }
}

TEST_CASE("rows that overflow fail the step instead of drawing from garbage") {
  const tiny_file dense({.type = tensor_type::q4_1});
  const tiny_file mixture({.ffn = 32, .experts = 8, .experts_used = 2, .type = tensor_type::q4_1});
  for (const auto& [tiny, bits] : {std::pair(&dense, 8U), {&dense, 16U}, {&mixture, 16U}})
    for (const auto which : available_isas()) {
      auto settings = settings_of(bits);
      settings.forced_isa = which;
      const auto stage = tiny->load(settings, model::layer_range{1, 1, false, true});
      std::vector<float> activations(64, 0.5F);
      CHECK(stage->run(batch_of({{1, {5}}}), activations));
      for (const float bad : {INFINITY, -INFINITY, NAN, 1e30F}) {
        activations[9] = bad;
        const auto out = stage->run(batch_of({{1, {5}}}), activations);
        REQUIRE(!out);
        CHECK(out.error().code == errc::internal);
      }
    }
}

TEST_CASE("logits agree with a plain float32 forward pass") {
  // In units of the logits' standard deviation. Float weights and 16-bit activations differ by the
  // rounding of the KV: 2^-11 for f16, 1/254 of the largest of 32 for q8_0. Errors are 1/254 in
  // every product for 8-bit activations, and 1/512 of each value for bf16.
  constexpr double bound_exact = 2e-3, bound_f32 = 5e-4, bound_q8_0 = 0.03, bound_8_bits = 0.1,
                   bound_bf16 = 0.02;
  const auto tokens = some_tokens(70);
  for (const tiny_llama& shape : engine_shapes()) {
    const tiny_file tiny(shape);
    const auto expected = reference_logits(*tiny.file, tiny.description, tokens);
    double squares = 0;
    for (const float x : expected.back())
      squares += double{x} * double{x};
    const double deviation = std::sqrt(squares / static_cast<double>(expected.back().size()));
    const bool is_float = model::tensor_type_traits(shape.type).block_elements == 1;
    for (const auto& [bits, format, bound] :
         {std::tuple(8U, cpu::kv_format::f16, is_float ? bound_exact : bound_8_bits),
          {16U, cpu::kv_format::f16, bound_exact},
          {16U, cpu::kv_format::f32, bound_f32},
          {16U, cpu::kv_format::q8_0, bound_q8_0}}) {
      auto settings = settings_of(bits);
      settings.kv_cache_dtype = format;
      const auto engine = tiny.load(settings);
      double worst = 0;
      for (const auto& [position, logits] : run_in_steps(*engine, tokens, {23}))
        for (std::size_t i = 0; i < logits.size(); ++i)
          worst = std::max(worst, std::abs(double{logits[i]} - double{expected[position][i]}));
      CAPTURE(tiny.description.file_type);
      CAPTURE(bits);
      CAPTURE(shape.hidden);
      CAPTURE(cpu::name_of(format));
      CHECK(worst > 0); // the two are not the same code
      const bool is_bf16 = shape.type == model::tensor_type::bf16;
      CHECK(worst / deviation < (is_bf16 ? std::max(bound, bound_bf16) : bound));
    }
  }
}

TEST_CASE("a batch draws one token per sampling slice, greedy draws the most likely") {
  const tiny_file tiny({.type = tensor_type::f32});
  auto settings = settings_of();
  settings.threads = 2;
  const auto engine = tiny.load(settings);
  auto batch = batch_of({{1, some_tokens(5), 0, true, 0},
                         {2, some_tokens(9, 1), 0, false, 1},
                         {3, some_tokens(3, 2), 0, true, 2}});
  batch.draws[1].sampling.logprobs = 2;
  const auto out = engine->run(batch, {});
  REQUIRE_MESSAGE(out, out.error().message);
  REQUIRE(out->samples.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto logits = engine->logits(i);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    CHECK(out->samples[i].token == best);
  }
  CHECK(out->samples[1].top.size() == 2);
  batch = batch_of({{1, {7}, 5, false, 0}});
  const auto none = engine->run(batch, {});
  REQUIRE(none);
  CHECK(none->samples.empty());
}

TEST_CASE("batches that violate the limits are rejected before anything is changed") {
  const tiny_file tiny({.type = tensor_type::f32});
  auto settings = settings_of();
  settings.rows_max = 8;
  settings.max_model_len = 100;
  const auto engine = tiny.load(settings);
  CHECK(engine->limits().max_model_len == 100);
  CHECK(engine->limits().block_positions == 64);
  CHECK(engine->limits().hidden_size == 64);
  const auto refused = [&](micro_batch batch, std::span<const float> activations = {}) {
    const auto out = engine->run(batch, activations);
    return !out && out.error().code == errc::invalid_value;
  };
  CHECK(refused({}));
  CHECK(refused(batch_of({{1, some_tokens(9)}})));              // more rows than fit
  CHECK(refused(batch_of({{1, {5}, 100}})));                    // beyond the context
  CHECK(refused(batch_of({{1, {5}, 0, true, 16}})));            // no such block
  CHECK(refused(batch_of({{1, {320}}})));                       // no such token
  CHECK(refused(batch_of({{1, {5}}}), std::vector<float>(64))); // activations into stage 0
  CHECK(engine->run(batch_of({{1, some_tokens(8)}}), {}));
}

namespace {

// "param:message" of a load failure, or "loaded".
std::string engine_refusal(const tiny_file& tiny, const cpu::config& settings,
                           const model::description& d) {
  const auto engine = cpu::engine_cpu::load(*tiny.file, d, model::whole(d), settings);
  return engine ? std::string("loaded") : engine.error().param + ":" + engine.error().message;
}

} // namespace

TEST_CASE("settings and models that the engine cannot run are rejected by name") {
  const tiny_file tiny({.type = tensor_type::f32});
  const auto with = [&](auto change) {
    auto c = settings_of();
    change(c);
    return engine_refusal(tiny, c, tiny.description);
  };
  CHECK(with([](auto&) {}) == "loaded");
  CHECK(with([](auto& c) { c.threads = 0; }).starts_with("threads:"));
  CHECK(with([](auto& c) { c.cpus = {0, 1}; }).starts_with("cpus:"));
  CHECK(with([](auto& c) { c.rows_max = 0; }).starts_with("rows_max:"));
  CHECK(with([](auto& c) { c.activation_bits = 4; }).starts_with("activation_bits:"));
  const auto less = [](auto& c) {
    c.kv_blocks = 0;
    c.kv_memory_bytes = 1000;
  };
  CHECK(with(less).find("1000 bytes of KV memory") != std::string::npos);
  const auto model_with = [&](auto change) {
    auto d = tiny.description;
    change(d);
    return engine_refusal(tiny, settings_of(), d);
  };
  CHECK(model_with([](auto& d) {
          d.expert_count = 2;
          d.has_parallel_ffn = true;
        }).find("experts beside attention") != std::string::npos);
  CHECK(model_with([](auto& d) {
          d.ropes.front().dimension_count = 6;
          d.head_size = 4;
        }).find("head sizes") != std::string::npos);
  CHECK(model_with([](auto& d) { d.head_size = 24; }).find("head sizes") != std::string::npos);
}

TEST_CASE("an engine reuses the KV that another left in the same file, with the same bits") {
  const tiny_file tiny({.type = tensor_type::q4_1});
  const int fd = memfd_create("kv", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  auto settings = settings_of();
  const auto tokens = some_tokens(80);
  const auto expected = run_in_steps(*tiny.load(settings), tokens, {79});
  settings.kv_file = fd;
  std::uint64_t incarnation = 0;
  {
    const auto first = tiny.load(settings);
    incarnation = first->limits().kv_incarnation;
    CHECK(incarnation != 0);
    run_in_steps(*first, {tokens.begin(), tokens.end() - 1}, {79});
  }
  {
    const auto second = tiny.load(settings);
    CHECK(second->limits().kv_incarnation == incarnation);
    REQUIRE(second->run(batch_of({{1, {tokens.back()}, 79}}), {}));
    CHECK(first_difference(expected.at(79), second->logits(0)) == -1);
  }
  SUBCASE("other blocks start empty") {
    settings.kv_blocks = 8;
  }
  SUBCASE("another type starts empty") {
    settings.kv_cache_dtype = cpu::kv_format::f32;
    settings.kv_blocks /= 2; // as many bytes
  }
  SUBCASE("other contents start empty") {
    REQUIRE(pwrite(fd, "x", 1, 8) == 1);
  }
  SUBCASE("a truncated file starts empty") {
    REQUIRE(ftruncate(fd, 5000) == 0);
  }
  const auto third = tiny.load(settings);
  CHECK(third->limits().kv_incarnation != incarnation);
  CHECK(third->limits().kv_incarnation != 0);
  close(fd);
}

TEST_CASE("a sequence swapped out and back into other blocks has the same bits") {
  const tiny_file tiny({.type = tensor_type::q4_1});
  const scratch_directory scratch;
  auto settings = settings_of();
  settings.threads = 3;
  const auto tokens = some_tokens(80);
  const auto expected = run_in_steps(*tiny.load(settings), tokens, {79});
  settings.swap_blocks = 4;
  settings.swap_directory = scratch.path();
  const auto engine = tiny.load(settings);
  CHECK(engine->limits().swap_blocks == 4);
  run_in_steps(*engine, {tokens.begin(), tokens.end() - 1}, {79});
  auto other = batch_of({{2, some_tokens(70), 0}}); // overwrites the blocks that were swapped out
  other.copies = {{0, 3, true}, {1, 1, true}};
  REQUIRE(engine->run(other, {}));
  auto last = batch_of({{1, {tokens.back()}, 79, true, 2}});
  last.copies = {{2, 3, false}, {3, 1, false}};
  REQUIRE(engine->run(last, {}));
  CHECK(first_difference(expected.at(79), engine->logits(0)) == -1);
  CHECK(std::filesystem::is_empty(scratch.path())); // the file has no name
}

TEST_CASE("swap space that does not fit is rejected at startup, by name and number") {
  const tiny_file tiny({.type = tensor_type::f32});
  const scratch_directory scratch;
  auto settings = settings_of();
  settings.swap_blocks = UINT32_MAX; // of 16 KiB: 64 TiB
  settings.swap_directory = scratch / "missing";
  CHECK(engine_refusal(tiny, settings, tiny.description).find("missing") != std::string::npos);
  settings.swap_directory = scratch.path();
  const auto refused = engine_refusal(tiny, settings, tiny.description);
  CHECK(refused.starts_with("model.swap_space:"));
  CHECK(refused.find("70368744161280 bytes") != std::string::npos);
}

TEST_CASE("a KV size in bytes becomes as many whole blocks as fit") {
  const tiny_file tiny({.type = tensor_type::f32}); // block: 2 layers x 2 heads x 64 x 16 x 2 x 2
  auto settings = settings_of();
  settings.kv_blocks = 0;
  settings.kv_memory_bytes = 3 * 16384 + 5;
  CHECK(tiny.load(settings)->limits().blocks == 3);
  settings.kv_cache_dtype = cpu::kv_format::f32;
  CHECK(tiny.load(settings)->limits().blocks == 1);
  settings.kv_cache_dtype = cpu::kv_format::q8_0; // 2 layers x 2 heads x 64 x (16 + 2) x 2
  CHECK(tiny.load(settings)->limits().blocks == 5);
}
