// Goal: CUDA tensors and kernels give the results of CPU tensors. Method: the tests of
// engine_torch_test.cpp on cuda:0; every case prints that it is skipped where there is no such
// device.
#include "runtime/model/open/open_model.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/embeddings.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

using namespace baton;
using namespace baton::testing;
using plugin::element;

namespace {

bool has_cuda() {
  const auto found = plugin::examine(open_engine("torch").path(), "cuda:0");
  if (!found)
    MESSAGE("skipped: ", found.error().message);
  return found.has_value();
}

} // namespace

TEST_CASE("on cuda:0 the engine keeps the contract of engines") {
  if (!has_cuda())
    return;
  const auto torch = open_engine("torch");
  for (const auto& [kind, tolerance] :
       {std::pair(element::f32, 5e-5F), {element::f16, 5e-3F}, {element::bf16, 0.03F}})
    for (const std::uint32_t experts : {0U, 4U}) {
      if (experts > 0 && kind != element::f32)
        continue; // near-ties of its router resolve differently
      const auto tiny = std::make_shared<const tiny_file>(
          tiny_llama{.layers = 3, .experts = experts, .experts_used = experts / 2});
      auto settings = plugin_settings("cuda:0");
      settings.weights = kind;
      settings.kv = kind == element::f32 ? element::f16 : kind;
      CAPTURE(static_cast<int>(kind));
      conformance::check_engine(plugin_subject(torch, tiny, settings, tolerance));
    }
}

TEST_CASE("on cuda:0 engines with packed weights keep the contract") {
  if (!has_cuda())
    return;
  const auto torch = open_engine("torch");
  const auto tiny = std::make_shared<const tiny_file>(tiny_llama{.layers = 3});
  for (const auto& [form, kind, tolerance] :
       {std::tuple(plugin::quantization::fp8, element::f32, 1e-4F),
        {plugin::quantization::fp8, element::bf16, 0.03F},
        {plugin::quantization::int4, element::f32, 1e-4F}}) {
    auto settings = plugin_settings("cuda:0");
    settings.weights = kind;
    settings.kv = kind == element::f32 ? element::f16 : kind;
    settings.quantized = form;
    settings.group = 32;
    CAPTURE(static_cast<int>(form));
    conformance::check_engine(plugin_subject(torch, tiny, settings, tolerance));
  }
}

// The cases above run recorded steps where a size repeats; this one runs unrecorded ones.
TEST_CASE("on cuda:0 recorded steps give the results of unrecorded steps") {
  if (!has_cuda())
    return;
  const family_golden golden("llama3");
  std::vector<std::string> logged;
  std::vector<logits_by_position> found;
  for (const bool is_eager : {true, false}) {
    plugin::config c;
    c.device = "cuda:0";
    c.blocks = 16;
    c.rows_max = 256;
    c.is_eager = is_eager;
    c.keeps_logits = true;
    c.log_line = [&](const std::string& line) {
      if (!line.starts_with("attention: ")) // which is said of every model
        logged.push_back(line);
    };
    auto engine =
        plugin::plugin_engine::load(open_engine("torch"), *golden.file, golden.description,
                                    model::whole(golden.description), c);
    REQUIRE_MESSAGE(engine, engine.error().message);
    found.push_back(run_in_steps(**engine, golden.prompt, {1}));
    CHECK(logged.empty() == is_eager);
  }
  for (const auto& line : logged)
    CHECK(line.starts_with("recorded a step of 1 rows"));
  for (const auto& [position, logits] : found[0])
    for (std::size_t i = 0; i < logits.size(); ++i)
      REQUIRE(std::abs(logits[i] - found[1].at(position)[i]) < 1e-4F);
}

TEST_CASE("on cuda:0 a family's logits match transformers") {
  if (!has_cuda())
    return;
  for (const auto& name : family_names) {
    const family_golden golden(name);
    plugin::config c;
    c.device = "cuda:0";
    c.blocks = 16;
    c.rows_max = 256;
    c.keeps_logits = true;
    auto engine =
        plugin::plugin_engine::load(open_engine("torch"), *golden.file, golden.description,
                                    model::whole(golden.description), c);
    REQUIRE_MESSAGE(engine, engine.error().message);
    for (const bool at_once : {false, true}) {
      const auto found = golden.compare(at_once ? run_at_once(**engine, golden.prompt)
                                                : run_in_steps(**engine, golden.prompt, {1}));
      MESSAGE(name, std::string(at_once ? " at once: " : " row by row: "), found.mean, ", worst ",
              found.worst);
      CHECK(found.mean < 2e-4);
      CHECK(found.worst < 2e-3);
    }
  }
}

TEST_CASE("on cuda:0 embeddings match the native engine") {
  if (!has_cuda())
    return;
  const family_golden golden("llama3");
  auto native = cpu::engine_cpu::load(*golden.file, golden.description,
                                      model::whole(golden.description), settings_of(16));
  REQUIRE_MESSAGE(native, native.error().message);
  plugin::config c;
  c.device = "cuda:0";
  c.blocks = 16;
  c.rows_max = 256;
  auto engine = plugin::plugin_engine::load(open_engine("torch"), *golden.file, golden.description,
                                            model::whole(golden.description), c);
  REQUIRE_MESSAGE(engine, engine.error().message);
  for (const auto how : all_poolings) {
    const auto expected = embedding_of(**native, golden.prompt, how, {50}),
               found = embedding_of(**engine, golden.prompt, how, {50, 7});
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      REQUIRE(std::abs(found[i] - expected[i]) < 1e-3F);
  }
}

// FlashInfer supports the heads of the default model; it does not support those of the tiny ones.
TEST_CASE("on cuda:0 the default model logs which attention it uses, and is close with either") {
  const auto path = source_directory() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!has_cuda())
    return;
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: models/SmolLM2-135M-Instruct.Q4_1.gguf is not there");
    return;
  }
  const auto file = model::open_model(path);
  REQUIRE_MESSAGE(file, file.error().message);
  const auto description = model::describe(**file);
  REQUIRE_MESSAGE(description, description.error().message);
  std::vector<token_id> ids;
  for (int i = 0; i < 200; ++i)
    ids.push_back(5 + 37 * i % 1000);
  std::vector<logits_by_position> found, stepped;
  std::vector<std::string> logged;
  for (const auto* attention : {"own", "prompts", "all"}) {
    setenv("BATON_GPU_ATTENTION", attention, 1);
    plugin::config c;
    c.device = "cuda:0";
    c.weights = c.kv = element::bf16;
    c.blocks = 16;
    c.rows_max = 256;
    c.keeps_logits = true;
    c.log_line = [&](const std::string& line) {
      if (line.starts_with("attention: "))
        logged.push_back(line);
    };
    auto engine = plugin::plugin_engine::load(open_engine("torch"), **file, *description,
                                              model::whole(*description), c);
    REQUIRE_MESSAGE(engine, engine.error().message);
    found.push_back(run_at_once(**engine, ids));
    stepped.push_back(run_in_steps(**engine, ids, {150, 1})); // recorded from the second row on
  }
  unsetenv("BATON_GPU_ATTENTION");
  REQUIRE(logged.size() == 3);
  for (const auto& line : logged)
    MESSAGE(line);
#ifdef BATON_FLASHINFER
  CHECK(logged[0].starts_with("attention: own kernels"));
  CHECK(logged[1].starts_with("attention: FlashInfer " BATON_FLASHINFER " for prompts, own"));
  CHECK(logged[2] == "attention: FlashInfer " BATON_FLASHINFER " for prompts and single rows");
#endif
  // In units of the logits' deviation: the effect of two orders of sums in bfloat16 over 30 layers.
  const auto apart = [](const logits_by_position& a, const logits_by_position& b) {
    double errors = 0, squares = 0;
    for (const auto& [position, logits] : a)
      for (std::size_t i = 0; i < logits.size(); ++i) {
        const double error = double{b.at(position)[i]} - double{logits[i]};
        errors += error * error;
        squares += double{logits[i]} * double{logits[i]};
      }
    return std::sqrt(errors / squares);
  };
  for (std::size_t i = 1; i < found.size(); ++i) {
    const double at_once = apart(found[0], found[i]), in_steps = apart(stepped[0], stepped[i]);
    MESSAGE("beside own attention: ", at_once, " at once, ", in_steps, " row by row");
    CHECK(at_once < 0.05);
    CHECK(in_steps < 0.05);
  }
}
