// A description is read from a file, or rejected by the name of the invalid item.
#include "runtime/model/description.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace baton;
using model::describe;
using model::gguf_file;
using model::tensor_type;
using testing::gguf_writer;
using testing::tiny_llama;

namespace {

result<model::description> described_file(const testing::scratch_directory& scratch,
                                          const gguf_writer& writer) {
  const auto path = scratch / "model.gguf";
  if (auto r = writer.write(path); !r) {
    return r.error();
  }
  const auto file = gguf_file::open(path);
  return file ? describe(*file) : file.error();
}

gguf_writer tiny(const tiny_llama& options = {.layers = 2}) {
  return testing::tiny_llama_writer(options).value();
}

struct change {
  std::string_view what;
  std::function<void(gguf_writer&)> apply;
  errc code;
  std::string_view mentions;
};

void expect_refusals(const std::vector<change>& changes) {
  const testing::scratch_directory scratch;
  for (const auto& change : changes) {
    CAPTURE(change.what);
    auto writer = tiny();
    change.apply(writer);
    const auto d = described_file(scratch, writer);
    REQUIRE_FALSE(d);
    CHECK(d.error().code == change.code);
    CHECK_MESSAGE(d.error().message.find(change.mentions) != std::string::npos, d.error().message);
  }
}

} // namespace

TEST_CASE("the sizes of a model are read from its metadata") {
  const testing::scratch_directory scratch;
  const auto d =
      described_file(scratch, tiny({.layers = 3, .heads = 8, .kv_heads = 2, .ffn = 160}));
  REQUIRE_MESSAGE(d, d.error().message);
  CHECK(d->architecture == "llama");
  CHECK(d->name == "tiny");
  CHECK(d->file_type == "F32");
  CHECK(d->layer_count == 3);
  CHECK(d->hidden_size == 64);
  CHECK(d->ffn_size == 160);
  CHECK(d->head_count == 8);
  CHECK(d->kv_head_count == 2);
  CHECK(d->head_size == 8);
  CHECK(d->q_size() == 64);
  CHECK(d->kv_size() == 16);
  CHECK(d->vocab_size == 320);
  CHECK(d->context_length == 2048);
  CHECK(d->rms_epsilon == 1e-5F);
  CHECK(d->ropes.front().kind == model::rope_kind::normal);
  CHECK(d->ropes.front().base == 10000.0F);
  CHECK(d->ropes.front().dimension_count == 8);
  CHECK(d->activation == model::activation_kind::silu);
  CHECK_FALSE(d->has_tied_embeddings);
  // 2 norms, q and o 64 x 64, k and v 64 x 16, three of 64 x 160
  const std::uint64_t layer = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 160;
  CHECK(d->layer_bytes == std::vector<std::uint64_t>(3, layer * 4));
  CHECK(d->parameter_count == 3 * layer + 2 * 64 * 320 + 64);
  CHECK(d->head_bytes == 64 * 320 * 4);
  CHECK(d->embedding_bytes == 64 * 320 * 4);
  CHECK(d->output_norm_bytes == 64 * 4);
}

TEST_CASE("without output.weight the head is the embedding") {
  const testing::scratch_directory scratch;
  const auto d = described_file(scratch, tiny({.type = tensor_type::q4_1,
                                               .embedding_type = tensor_type::q8_0,
                                               .has_tied_embeddings = true}));
  REQUIRE_MESSAGE(d, d.error().message);
  CHECK(d->has_tied_embeddings);
  CHECK(d->head_bytes == 320 * 64 / 32 * 34);
  CHECK(d->type_bytes.at(tensor_type::q8_0) == d->head_bytes);
  const std::uint64_t norms = (2 * d->layer_count + 1) * std::uint64_t{64} * 4;
  CHECK(d->type_bytes.at(tensor_type::f32) == norms);
  std::uint64_t layers = d->output_norm_bytes;
  for (const auto bytes : d->layer_bytes)
    layers += bytes;
  CHECK(d->type_bytes.at(tensor_type::q4_1) == layers - norms);
  CHECK(d->head_bytes == d->embedding_bytes);
  CHECK(d->file_type == "Q4_1");
}

TEST_CASE("a model of every supported tensor type is described") {
  const testing::scratch_directory scratch;
  for (const auto& row : model::tensor_type_table()) {
    if (row.is_supported) {
      CAPTURE(row.name);
      const auto d = described_file(
          scratch, tiny({.layers = 1, .hidden = 256, .heads = 4, .ffn = 256, .type = row.type}));
      REQUIRE_MESSAGE(d, d.error().message);
      CHECK(d->file_type.starts_with(row.name));
    }
  }
}

TEST_CASE("optional keys have the defaults of the specification") {
  const testing::scratch_directory scratch;
  auto writer = tiny({.heads = 4, .kv_heads = 4});
  writer.erase("llama.attention.head_count_kv")
      .erase("llama.rope.freq_base")
      .erase("llama.rope.dimension_count")
      .erase("llama.vocab_size")
      .erase("general.name")
      .erase("general.file_type");
  const auto d = described_file(scratch, writer);
  REQUIRE_MESSAGE(d, d.error().message);
  CHECK(d->kv_head_count == 4);
  CHECK(d->ropes.front().base == 10000.0F);
  CHECK(d->ropes.front().dimension_count == 16);
  CHECK(d->name == "model"); // the file's
  CHECK(d->file_type == "unknown");
}

TEST_CASE("disabled features are no reason to reject a model") {
  const testing::scratch_directory scratch;
  auto writer = tiny();
  writer.set_u32("llama.expert_count", 0)
      .set_u32("llama.attention.sliding_window", 0)
      .set_string("llama.rope.scaling.type", "none")
      .set_f32("llama.rope.scaling.factor", 1.0F)
      .set_bool("llama.attention.causal", true)
      .set_u32("llama.attention.key_length", 16)
      .set_u32("llama.attention.value_length", 16);
  const auto d = described_file(scratch, writer);
  CHECK_MESSAGE(d, d.error().message);
}

TEST_CASE("an unsupported feature is rejected by its key") {
  using enum errc;
  expect_refusals({
      {"another family", [](auto& w) { w.set_string("general.architecture", "mamba"); },
       unsupported_model, "'mamba': this build runs llama, "},
      {"shared experts", [](auto& w) { w.set_u32("llama.expert_shared_count", 1); },
       unsupported_model, "'llama.expert_shared_count' is 1"},
      {"experts by sigmoid", [](auto& w) { w.set_u32("llama.expert_gating_func", 2); },
       unsupported_model, "'llama.expert_gating_func' is 2"},
      {"rope scaling", [](auto& w) { w.set_string("llama.rope.scaling.type", "longrope"); },
       unsupported_model, "'llama.rope.scaling.type' is longrope"},
      {"a soft cap", [](auto& w) { w.set_f32("llama.final_logit_softcapping", 30.0F); },
       unsupported_model, "softcapping"},
      {"a scale", [](auto& w) { w.set_f32("llama.logit_scale", 16.0F); }, unsupported_model,
       "'llama.logit_scale' is 16"},
      {"no causal mask", [](auto& w) { w.set_bool("llama.attention.causal", false); },
       unsupported_model, "causal"},
      {"a key from the future", [](auto& w) { w.set_u32("llama.attention.twist", 1); },
       unsupported_model, "'llama.attention.twist'"},
      {"values of another size", [](auto& w) { w.set_u32("llama.attention.value_length", 8); },
       unsupported_model, "value_length"},
      {"factors for long contexts",
       [](auto& w) {
         w.add_tensor("rope_factors_long.weight", tensor_type::f32, {8}, std::vector<float>(8));
       },
       unsupported_model, "'rope_factors_long.weight' [8]"},
      {"a bias",
       [](auto& w) {
         w.add_tensor("blk.0.attn_q.bias", tensor_type::f32, {64}, std::vector<float>(64));
       },
       unsupported_model, "'blk.0.attn_q.bias'"},
      {"a type that is not decoded",
       [](auto& w) {
         w.erase_tensor("blk.1.ffn_up.weight");
         w.add_tensor_bytes("blk.1.ffn_up.weight", 27, {64, 128},
                            std::vector<std::byte>(std::size_t{64} * 128 * 8));
       },
       unsupported_model, "'blk.1.ffn_up.weight' is I64: this build reads F32, F16"},
  });
}

TEST_CASE("contradicting counts and tensors of experts are rejected") {
  using enum errc;
  const auto mixture = [](auto change) {
    return [=](gguf_writer& w) {
      w = tiny({.experts = 4, .experts_used = 2});
      change(w);
    };
  };
  const auto set = [&](std::string_view key, std::uint32_t value) {
    return mixture([=](gguf_writer& w) { w.set_u32(key, value); });
  };
  const auto replace = [&](std::string name, std::vector<std::uint64_t> shape) {
    return mixture([=](gguf_writer& w) {
      std::uint64_t count = 1;
      for (const auto n : shape)
        count *= n;
      w.erase_tensor(name).add_tensor(name, tensor_type::f32, shape, std::vector<float>(count));
    });
  };
  const std::uint32_t u32_max = std::numeric_limits<std::uint32_t>::max();
  expect_refusals({
      {"none used", set("llama.expert_used_count", 0), bad_model_file,
       "'llama.expert_used_count' is 0, not in [1, 4]"},
      {"more used than there are", set("llama.expert_used_count", 5), bad_model_file,
       "'llama.expert_used_count' is 5, not in [1, 4]"},
      {"no word of those used", mixture([](gguf_writer& w) { w.erase("llama.expert_used_count"); }),
       bad_model_file, "'llama.expert_used_count' is missing"},
      {"2^32 - 1 experts", set("llama.expert_count", u32_max), bad_model_file,
       "is 4294967295, not in [1, 1024]"},
      {"an expert more", set("llama.expert_count", 5), bad_model_file,
       "'blk.0.ffn_gate_inp.weight': expected [64, 5], found [64, 4]"},
      {"experts of an unknown number", set("llama.expert_count", 0), bad_model_file,
       "'blk.0.ffn_gate.weight' is missing"},
      {"another width", set("llama.expert_feed_forward_length", 64), bad_model_file,
       "'blk.0.ffn_gate_exps.weight': expected [64, 64, 4], found [64, 128, 4]"},
      {"no width", set("llama.expert_feed_forward_length", 0), bad_model_file,
       "'llama.expert_feed_forward_length' is 0"},
      {"a third dimension too small", replace("blk.1.ffn_up_exps.weight", {64, 128, 3}),
       bad_model_file, "'blk.1.ffn_up_exps.weight': expected [64, 128, 4], found [64, 128, 3]"},
      {"a third dimension too many", replace("blk.1.ffn_down_exps.weight", {128, 64, 4, 2}),
       bad_model_file, "expected [128, 64, 4], found [128, 64, 4, 2]"},
      {"no third dimension", replace("blk.0.ffn_down_exps.weight", {128, 256}), bad_model_file,
       "'blk.0.ffn_down_exps.weight': expected [128, 64, 4], found [128, 256]"},
      {"a tensor for each expert", mixture([](gguf_writer& w) {
         w.erase_tensor("blk.0.ffn_gate_exps.weight")
             .add_tensor("blk.0.ffn_gate.0.weight", tensor_type::f32, {64, 128},
                         std::vector<float>(64 * 128));
       }),
       unsupported_model, "'blk.0.ffn_gate.0.weight': a tensor for each expert is an older layout"},
      {"a scale of the weights",
       mixture([](gguf_writer& w) { w.set_f32("llama.expert_weights_scale", 2.5F); }),
       unsupported_model, "'llama.expert_weights_scale' is 2.5"},
  });
}

TEST_CASE("contradicting sizes are rejected by key or tensor") {
  using enum errc;
  const auto set = [](std::string_view key, std::uint32_t value) {
    return [=](gguf_writer& w) { w.set_u32(key, value); };
  };
  const std::uint32_t u32_max = std::numeric_limits<std::uint32_t>::max();
  expect_refusals({
      {"no architecture", [](auto& w) { w.erase("general.architecture"); }, bad_model_file,
       "general.architecture"},
      {"no layers key", [](auto& w) { w.erase("llama.block_count"); }, bad_model_file,
       "'llama.block_count' is missing"},
      {"no layers", set("llama.block_count", 0), bad_model_file, "is 0, not in [1, 1024]"},
      {"2^32 - 1 layers", set("llama.block_count", u32_max), bad_model_file, "4294967295"},
      {"a layer more", set("llama.block_count", 3), bad_model_file,
       "'blk.2.attn_norm.weight' is missing, expected [64]"},
      {"a layer less", set("llama.block_count", 1), unsupported_model, "'blk.1."},
      {"another width", set("llama.embedding_length", 128), bad_model_file,
       "'token_embd.weight': expected [128, 320], found [64, 320]"},
      {"another ffn", set("llama.feed_forward_length", 256), bad_model_file,
       "'blk.0.ffn_gate.weight': expected [64, 256], found [64, 128]"},
      {"no heads", set("llama.attention.head_count", 0), bad_model_file, "head_count"},
      {"heads that do not divide", set("llama.attention.head_count", 7), bad_model_file, "7 heads"},
      {"more heads than width", set("llama.attention.head_count", 128), bad_model_file,
       "128 heads"},
      {"KV heads that do not divide", set("llama.attention.head_count_kv", 3), bad_model_file,
       "share 3 KV heads"},
      {"more KV heads", set("llama.attention.head_count_kv", 8), bad_model_file, "KV heads"},
      {"fewer KV heads", set("llama.attention.head_count_kv", 1), bad_model_file,
       "'blk.0.attn_k.weight': expected [64, 16], found [64, 32]"},
      {"heads per layer",
       [](auto& w) {
         w.set_i32s("llama.attention.head_count", std::vector<std::int32_t>{4, 4});
       },
       bad_model_file, "'llama.attention.head_count' is an array"},
      {"an odd rotation", set("llama.rope.dimension_count", 15), bad_model_file,
       "dimension_count is 15"},
      {"a wide rotation", set("llama.rope.dimension_count", 32), bad_model_file,
       "dimension_count is 32"},
      {"another vocabulary", set("llama.vocab_size", 321), bad_model_file, "vocab_size is 321"},
      {"fewer tokens",
       [](auto& w) {
         w.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
       },
       bad_model_file, "the vocabulary has 2"},
      {"no epsilon", [](auto& w) { w.erase("llama.attention.layer_norm_rms_epsilon"); },
       bad_model_file, "layer_norm_rms_epsilon"},
      {"a NaN for a base", [](auto& w) { w.set_f32("llama.rope.freq_base", std::nanf("")); },
       bad_model_file, "freq_base' is nan"},
      {"a factor of a rope that is not scaled",
       [](auto& w) {
         w.set_string("llama.rope.scaling.type", "none").set_f32("llama.rope.scaling.factor", 2.0F);
       },
       bad_model_file, "a factor of 2"},
      {"a factor of nothing", [](auto& w) { w.set_f32("llama.rope.scaling.factor", 0.0F); },
       bad_model_file, "'llama.rope.scaling.factor' is 0"},
      {"rope factors for half of the pairs",
       [](auto& w) {
         w.add_tensor("rope_freqs.weight", tensor_type::f32, {4}, std::vector<float>(4));
       },
       bad_model_file, "'rope_freqs.weight': expected [8], found [4]"},
      {"no embedding", [](auto& w) { w.erase_tensor("token_embd.weight"); }, bad_model_file,
       "'token_embd.weight' is missing"},
      {"no output norm", [](auto& w) { w.erase_tensor("output_norm.weight"); }, bad_model_file,
       "'output_norm.weight' is missing"},
  });
}

TEST_CASE("the default model file has the known facts") {
  const std::filesystem::path path = BATON_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    MESSAGE("skipped: no ", path.string());
    return;
  }
  const auto file = gguf_file::open(path);
  REQUIRE_MESSAGE(file, file.error().message);
  CHECK(file->size_bytes() == 98362432);
  CHECK(file->version() == 3);
  CHECK(file->tensors().size() == 272);
  CHECK(file->keys().size() == 33);
  CHECK(file->get_strings("tokenizer.ggml.merges").value().size() == 48900);
  CHECK(file->get_strings("tokenizer.ggml.tokens").value().at(1) == "<|im_start|>");
  std::uint64_t bytes = 0;
  for (const auto& tensor : file->tensors()) {
    bytes += tensor.bytes.size();
  }
  CHECK(bytes == 96576768);
  const auto d = describe(*file);
  REQUIRE_MESSAGE(d, d.error().message);
  CHECK(d->name == "Smollm2 135M 8k Lc100K Mix1 Ep2");
  CHECK(d->file_type == "Q4_1");
  CHECK(d->layer_count == 30);
  CHECK(d->hidden_size == 576);
  CHECK(d->ffn_size == 1536);
  CHECK(d->head_count == 9);
  CHECK(d->kv_head_count == 3);
  CHECK(d->head_size == 64);
  CHECK(d->vocab_size == 49152);
  CHECK(d->context_length == 8192);
  CHECK(d->ropes.front().base == 100000.0F);
  CHECK(d->ropes.front().dimension_count == 64);
  CHECK(d->rms_epsilon == 1e-5F);
  CHECK(d->has_tied_embeddings);
  CHECK(d->parameter_count == 134515008);
  CHECK(file->find("token_embd.weight")->type == tensor_type::q8_0);
}
