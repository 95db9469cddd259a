// Goal: CUDA tensors and kernels give what CPU tensors give. Method: the tests of
// engine_torch_test.cpp on cuda:0; every case says that it was left out where there is no such
// device.
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/sequences.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

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
        continue; // a router that nearly ties chooses otherwise
      const auto tiny = std::make_shared<const tiny_file>(
          tiny_llama{.layers = 3, .experts = experts, .experts_used = experts / 2});
      auto settings = plugin_settings("cuda:0");
      settings.weights = kind;
      settings.kv = kind == element::f32 ? element::f16 : kind;
      CAPTURE(static_cast<int>(kind));
      conformance::check_engine(plugin_subject(torch, tiny, settings, tolerance));
    }
}

TEST_CASE("on cuda:0 a family's logits are those of transformers") {
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
