// Goal: models use FlashInfer's attention where its templates support them, with a reason for the
// rest. Method: known models, and one difference at a time.
#include "runtime/gpu/kernels/flashinfer.hpp"

#include <doctest/doctest.h>

using namespace baton::gpu;

namespace {

attention_shape llama_8b() {
  attention_shape s;
  s.kind = s.kv = element::bf16;
  s.heads = 32;
  s.kv_heads = 8;
  s.head_size = 128;
  s.block_positions = 64;
  s.rows_max = 2048;
  s.windows = {0};
  return s;
}

void check_use(const attention_shape& s, bool prompts, bool singles, const std::string& why) {
  const auto use = flashinfer_use(s);
  CAPTURE(why);
  CHECK(use.prompts == prompts);
  CHECK(use.singles == singles);
  CHECK(use.why_not == why);
}

} // namespace

TEST_CASE("heads, types and groups that FlashInfer supports use it, others use our kernels") {
  check_use(llama_8b(), true, true, "");
  for (const std::uint32_t size : {64U, 256U}) {
    auto s = llama_8b();
    s.head_size = size;
    s.kind = s.kv = element::f16;
    check_use(s, true, true, "");
  }
  auto phi = llama_8b();
  phi.head_size = 96;
  check_use(phi, false, false, "heads of 96");
  auto wide = llama_8b();
  wide.kind = element::f32;
  check_use(wide, false, false, "rows of float32");
  auto mixed = llama_8b();
  mixed.kv = element::f16;
  check_use(mixed, false, false, "keys and values of another type than the rows");
  auto qwen = llama_8b();
  qwen.heads = 28;
  qwen.kv_heads = 4;
  check_use(qwen, true, false, "7 query heads share a KV head");
}

TEST_CASE("single rows of layers with a window use our kernels") {
  auto gemma = llama_8b();
  gemma.heads = 8;
  gemma.kv_heads = 4;
  gemma.head_size = 256;
  gemma.soft_cap = 50;
  gemma.windows = {0, 4096};
  check_use(gemma, true, true, "");
  gemma.windows = {4096};
  check_use(gemma, true, false, "every layer has a window");
}

TEST_CASE("the operator may disable parts of it by known names") {
  const auto of = [](const char* value) {
    return flashinfer_use(llama_8b(), attention_wanted_of(value));
  };
  CHECK(!of("own").prompts);
  CHECK(!of("own").singles);
  CHECK(of("prompts").prompts);
  CHECK(!of("prompts").singles);
  CHECK(of("prompts").why_not == "disabled by BATON_GPU_ATTENTION");
  CHECK(of(nullptr).singles);
  CHECK(of("all").singles);
  for (const auto* misspelt : {"", "OWN", "prompt", "all "}) {
    CAPTURE(std::string(misspelt));
    try {
      of(misspelt);
      FAIL("is taken for something");
    } catch (const refused& e) {
      CHECK(e.why() == baton::plugin::status::invalid_value);
      CHECK(std::string(e.what()).find("BATON_GPU_ATTENTION is '" + std::string(misspelt) + "'") !=
            std::string::npos);
    }
  }
}
