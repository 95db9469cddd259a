// Goal: the stage of the GPU engine is the model that its authors publish. Method: the families'
// tiny files with the answers of transformers on the plain device, in both file forms. 16-bit types
// stay within their rounding. The default model matches the native engine's logits.
#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/plugin/plugin_engine.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/sequences.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;
using plugin::element;

namespace {

// As for the native engine (tests/unit/cpu/family_test.cpp): float32 over float16 keys and values.
constexpr double family_bound = 2e-4, bound_worst = 2e-3;

plugin::library plain() {
  auto opened = plugin::library::open(engines_directory() / "engine_plain.so");
  REQUIRE_MESSAGE(opened, opened.error().message);
  return *std::move(opened);
}

plugin::config family_settings(element weights, element kv) {
  plugin::config c;
  c.device = "plain";
  c.weights = weights;
  c.kv = kv;
  c.blocks = 16;
  c.rows_max = 256;
  c.keeps_logits = true;
  return c;
}

std::unique_ptr<plugin::plugin_engine> load_family(const family_golden& golden,
                                                   const plugin::config& settings,
                                                   std::optional<model::layer_range> range = {}) {
  auto engine =
      plugin::plugin_engine::load(plain(), *golden.file, golden.description,
                                  range.value_or(model::whole(golden.description)), settings);
  REQUIRE_MESSAGE(engine, engine.error().message);
  return *std::move(engine);
}

} // namespace

TEST_CASE("behind the plugin ABI, a family's logits match transformers") {
  for (const auto& name : family_names)
    for (const auto& form : forms_of(name)) {
      const family_golden golden(name, {}, form);
      const auto engine = load_family(golden, family_settings(element::f32, element::f16));
      const auto found = golden.compare(run_at_once(*engine, golden.prompt));
      MESSAGE(name, form, ": ", found.mean, ", worst ", found.worst);
      CHECK(found.mean < family_bound);
      CHECK(found.worst < bound_worst);
    }
}

TEST_CASE("with a library's attention, a family's logits match transformers") {
  for (const auto& name : family_names)
    for (const auto* device : {"plain-paged", "plain-prompts"}) {
      const family_golden golden(name);
      auto settings = family_settings(element::f32, element::f16);
      settings.device = device;
      const auto engine = load_family(golden, settings);
      for (const bool at_once : {false, true}) {
        const auto found = golden.compare(at_once ? run_at_once(*engine, golden.prompt)
                                                  : run_in_steps(*engine, golden.prompt, {1}));
        CAPTURE(name);
        CHECK(found.mean < family_bound);
        CHECK(found.worst < bound_worst);
      }
    }
}

TEST_CASE("behind the plugin ABI, a family decodes greedily as transformers does") {
  for (const auto& name : family_names) {
    CAPTURE(name);
    const family_golden golden(name);
    auto settings = family_settings(element::f32, element::f16);
    settings.keeps_logits = false; // the engine draws
    const auto engine = load_family(golden, settings);
    auto out = engine->run(batch_of({{1, golden.prompt, 0}}), {});
    REQUIRE_MESSAGE(out, out.error().message);
    std::vector<token_id> ids{out->samples.front().token};
    while (ids.size() < golden.greedy.size()) {
      const auto position = static_cast<std::uint32_t>(golden.prompt.size() + ids.size() - 1);
      out = engine->run(batch_of({{1, {ids.back()}, position}}), {});
      REQUIRE_MESSAGE(out, out.error().message);
      ids.push_back(out->samples.front().token);
    }
    CHECK(ids == golden.greedy);
  }
}

TEST_CASE("behind the plugin ABI, a feature beyond it is refused by name") {
  const family_golden golden("glm4moe");
  auto changed = golden.description;
  changed.router = model::router_kind::softmax;
  const auto engine =
      plugin::plugin_engine::load(plain(), *golden.file, changed, model::whole(changed),
                                  family_settings(element::f32, element::f16));
  REQUIRE_FALSE(engine);
  CHECK(engine.error().code == errc::unsupported_model);
  CHECK(engine.error().message.find("biases of the choice of experts without sigmoids") !=
        std::string::npos);
}

TEST_CASE("behind the plugin ABI, layers of several sizes are refused by name") {
  for (const auto& name : uneven_family_names) {
    const family_golden golden(name);
    const auto engine = plugin::plugin_engine::load(plain(), *golden.file, golden.description,
                                                    model::whole(golden.description),
                                                    family_settings(element::f32, element::f16));
    REQUIRE_FALSE(engine);
    CHECK(engine.error().code == errc::unsupported_model);
    CHECK(engine.error().message.find("layers of several sizes") != std::string::npos);
  }
}

TEST_CASE("behind the plugin ABI, latent attention is refused by name") {
  for (const auto& name : latent_family_names) {
    const family_golden golden(name);
    auto settings = family_settings(element::f32, element::f16);
    const auto engine = plugin::plugin_engine::load(plain(), *golden.file, golden.description,
                                                    model::whole(golden.description), settings);
    REQUIRE_FALSE(engine);
    CHECK(engine.error().code == errc::unsupported_model);
    CHECK(engine.error().message.find("latent attention") != std::string::npos);
  }
}

// Values of 8 and 11 bits between the parts of a layer: 2^-9 and 2^-12 an operation, over a few
// dozen operations. Measured: up to 0.017 and 0.0017.
TEST_CASE("behind the plugin ABI, 16-bit types stay close to transformers") {
  for (const auto& name : family_names) {
    const family_golden golden(name);
    if (golden.description.expert_count > 0)
      continue; // near-ties of its router resolve differently
    for (const auto& [kind, limit] : {std::pair(element::bf16, 0.035), {element::f16, 0.0035}}) {
      const auto engine = load_family(golden, family_settings(kind, kind));
      const auto found = golden.compare(run_in_steps(*engine, golden.prompt, {1}));
      MESSAGE(name, std::string(kind == element::bf16 ? " in bf16: " : " in f16: "), found.mean);
      CHECK(found.mean < limit);
      CHECK(found.mean > 1e-5); // it does not run in float32
    }
  }
}

TEST_CASE("behind the plugin ABI, every cut of a family gives the bits of the whole") {
  for (const auto& name : family_names) {
    CAPTURE(name);
    const family_golden golden(name);
    const auto settings = family_settings(element::f32, element::f16);
    const auto expected = run_in_steps(*load_family(golden, settings), golden.prompt, {33});
    const auto layers = golden.description.layer_count;
    for (std::uint32_t cut = 1; cut < layers; ++cut) {
      const auto first = load_family(golden, settings, model::layer_range{0, cut, true, false});
      const auto second =
          load_family(golden, settings, model::layer_range{cut, layers - cut, false, true});
      logits_by_position found;
      for (std::size_t at = 0; at < golden.prompt.size(); at += 33) {
        const auto end = std::min(at + 33, golden.prompt.size());
        const auto batch = batch_of({{1,
                                      {golden.prompt.begin() + static_cast<std::ptrdiff_t>(at),
                                       golden.prompt.begin() + static_cast<std::ptrdiff_t>(end)},
                                      static_cast<std::uint32_t>(at)}});
        const auto middle = first->run(batch, {});
        REQUIRE_MESSAGE(middle, middle.error().message);
        REQUIRE(second->run(batch, middle->activations));
        keep(found, static_cast<std::uint32_t>(end - 1), second->logits(0));
      }
      check_same(expected, found);
    }
  }
}
