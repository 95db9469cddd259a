// The architecture that each family's name and keys define: read from the tiny files of
// tests/data/model/families, and from llama files with one more key.
#include "runtime/model/family.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/slice.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace baton;
using model::activation_kind;
using model::describe;
using model::description;
using model::gguf_file;
using model::rope_kind;
using model::rope_scaling_kind;

namespace {

gguf_file open(const std::string& name) {
  auto file = gguf_file::open(std::filesystem::path(BATON_SOURCE_DIR) /
                              "tests/data/model/families" / (name + ".gguf"));
  REQUIRE_MESSAGE(file, file.error().message);
  return *std::move(file);
}

description described_family(const std::string& name) {
  const auto d = describe(open(name));
  REQUIRE_MESSAGE(d, d.error().message);
  return *d;
}

// A llama file with a change applied.
template <class Change>
result<description> changed_family(Change change) {
  const testing::scratch_directory scratch;
  auto writer = testing::tiny_llama_writer({.layers = 2}).value();
  change(writer);
  REQUIRE(writer.write(scratch / "model.gguf"));
  const auto file = gguf_file::open(scratch / "model.gguf");
  return file ? describe(*file) : file.error();
}

// One character per layer.
template <class Predicate>
std::string pattern(const description& d, Predicate has) {
  std::string letters;
  for (std::uint32_t layer = 0; layer < d.layer_count; ++layer)
    letters += has(layer) ? 'x' : '.';
  return letters;
}
std::string windows(const description& d) {
  return pattern(d, [&](std::uint32_t layer) { return d.layers[layer].window > 0; });
}
std::string rotations(const description& d) {
  return pattern(d, [&](std::uint32_t layer) { return d.layers[layer].rope.has_value(); });
}

} // namespace

TEST_CASE("a family's stages name every tensor and count its bytes") {
  for (const auto& name : testing::all_family_names()) {
    CAPTURE(name);
    const auto file = open(name);
    const auto d = describe(file);
    REQUIRE_MESSAGE(d, d.error().message);
    if (!d->uncut_feature().empty())
      continue;
    std::uint64_t all = 0, elements = 0;
    for (const auto& tensor : file.tensors()) {
      all += tensor.bytes.size();
      elements += tensor.elements();
    }
    CHECK(d->parameter_count == elements);
    CHECK(model::tensors_of(*d, model::whole(*d)).size() == file.tensors().size());
    CHECK(model::stage_bytes(*d, file, model::whole(*d)).value() == all);
    std::set<std::string> names;
    std::uint64_t sum = 0;
    const auto ranges = model::partition(*d, 2);
    REQUIRE(ranges);
    for (const auto& range : *ranges) {
      const auto list = model::tensors_of(*d, range);
      CHECK(std::set(list.begin(), list.end()).size() == list.size());
      names.insert(list.begin(), list.end());
      sum += model::stage_bytes(*d, file, range).value();
    }
    CHECK(names.size() == file.tensors().size());
    // Both stages read the rope factors; both ends read a tied embedding.
    std::uint64_t factors = 0;
    for (const auto& tensor : model::shared_tensors(*d))
      factors += file.find(tensor.name)->bytes.size();
    CHECK(sum == all + (d->has_tied_embeddings ? d->embedding_bytes : 0) + factors);
  }
}

TEST_CASE("qwen2 has biases and rotates halves") {
  const auto d = described_family("qwen2");
  CHECK(d.has_attention_bias);
  CHECK(d.ropes.front().kind == rope_kind::neox);
  CHECK(d.has_tied_embeddings);
  CHECK(d.qk_norm == model::qk_norm_kind::none);
}

TEST_CASE("qwen3 has norms of heads, whose size is explicit") {
  const auto d = described_family("qwen3");
  CHECK(d.qk_norm == model::qk_norm_kind::heads);
  CHECK(d.ropes.front().kind == rope_kind::neox);
  CHECK(d.q_size() == 4 * d.hidden_size);
  CHECK_FALSE(d.has_attention_bias);
}

TEST_CASE("llama's rope is scaled by factors or linearly, by the newer or the older key") {
  const auto d = described_family("llama3");
  CHECK(d.ropes.front().has_factors);
  CHECK(d.ropes.front().scaling == rope_scaling_kind::none);
  const auto linear = described_family("mistral");
  CHECK_FALSE(linear.ropes.front().has_factors);
  CHECK(linear.ropes.front().scaling == rope_scaling_kind::linear);
  CHECK(linear.ropes.front().scaling_factor == 4.0F);
  const auto older = changed_family([](auto& w) { w.set_f32("llama.rope.scale_linear", 2.0F); });
  REQUIRE(older);
  CHECK(older->ropes.front().scaling == rope_scaling_kind::linear);
  CHECK(older->ropes.front().scaling_factor == 2.0F);
}

TEST_CASE("a window of llama applies to every layer") {
  const auto d = described_family("mistral");
  CHECK(d.architecture == "llama");
  CHECK(d.layers.front().window == 40);
  CHECK(windows(d) == "xx");
  CHECK(windows(described_family("llama3")) == "..");
}

TEST_CASE("phi3 has fused projections, part of a head rotated, and a window") {
  const auto d = described_family("phi3");
  CHECK(d.has_fused_qkv);
  CHECK(d.has_fused_ffn);
  CHECK(d.ropes.front().kind == rope_kind::neox);
  CHECK(d.ropes.front().dimension_count == d.head_size / 2);
  CHECK(d.layers.front().window == 40);
  CHECK(windows(d) == "xx");
}

TEST_CASE("smollm3 leaves every fourth layer unrotated") {
  const auto d = described_family("smollm3");
  CHECK(rotations(d) == "xxx.x");
  CHECK(d.ropes.front().kind == rope_kind::normal);
  CHECK(rotations(described_family("llama3")) == "xx");
}

TEST_CASE("gemma2 has caps, post norms, a window in every second layer") {
  const auto d = described_family("gemma2");
  CHECK(d.attention_soft_cap == 2.0F);
  CHECK(d.final_soft_cap == 3.0F);
  CHECK(windows(d) == "x.x");
  CHECK(d.has_post_norms);
  CHECK(d.activation == activation_kind::gelu);
  CHECK(d.embedding_scale == std::sqrt(32.0F));
  CHECK(d.attention_scale == 0.25F);
  CHECK(d.ropes.size() == 1);
}

TEST_CASE("gemma3 has norms of heads, and a window with its own rope in five layers of six") {
  const auto d = described_family("gemma3");
  CHECK(windows(d) == "xxxxx.");
  CHECK(d.qk_norm == model::qk_norm_kind::heads);
  CHECK(d.has_post_norms);
  CHECK(d.activation == activation_kind::gelu);
  CHECK_FALSE(d.attention_soft_cap);
  CHECK_FALSE(d.final_soft_cap);
  CHECK(d.ropes.front().base == 1e6F);
  CHECK(d.ropes.front().scaling == rope_scaling_kind::linear);
  REQUIRE(d.ropes.size() == 2);
  CHECK(d.layers[0].rope == 1U);
  CHECK(d.layers[5].rope == 0U);
  CHECK(d.ropes[1].base == 1e4F);
  CHECK(d.ropes[1].scaling == rope_scaling_kind::none);
  CHECK(d.ropes[1].kind == rope_kind::neox);
}

TEST_CASE("a mixture of llama has experts of the ffn's width, whose weights add up to one") {
  const auto file = open("mixtral");
  const auto d = describe(file);
  REQUIRE_MESSAGE(d, d.error().message);
  CHECK(d->architecture == "llama");
  CHECK(d->expert_count == 4);
  CHECK(d->expert_used_count == 2);
  CHECK(d->expert_ffn_size == d->ffn_size);
  CHECK(d->has_normalised_experts);
  CHECK(described_family("llama3").expert_count == 0);
}

TEST_CASE("qwen3moe has experts of their own width") {
  const auto d = described_family("qwen3moe");
  CHECK(d.expert_count == 5);
  CHECK(d.expert_used_count == 2);
  CHECK(d.expert_ffn_size == 32);
  CHECK(d.qk_norm == model::qk_norm_kind::heads);
  CHECK_FALSE(d.has_normalised_experts); // set by the key; without it, as published
  const auto kind = model::family_of("qwen3moe");
  REQUIRE(kind);
  CHECK(kind->normalises_experts);
}

TEST_CASE("a step of one row reads only the experts that it uses") {
  const auto file = open("mixtral");
  const auto d = describe(file);
  REQUIRE_MESSAGE(d, d.error().message);
  std::uint64_t experts = 0, others = 0;
  for (const auto& tensor : file.tensors())
    (tensor.name.find("_exps.") == std::string::npos ? others : experts) += tensor.bytes.size();
  CHECK(d->expert_bytes == experts);
  CHECK(d->step_bytes() == others + experts / 2); // the embedding is the head
}

// Gemma 2 and 3 with 27 B parameters scale queries by 1 / sqrt(hidden / heads); no key defines it.
TEST_CASE("gemma's largest size scales queries by the width of the hidden state") {
  const testing::scratch_directory scratch;
  const auto scale_of = [&](std::string_view architecture, std::uint32_t layers) {
    testing::gguf_writer w;
    const auto key = [&](std::string_view rest) {
      return fmt::format("{}.{}", architecture, rest);
    };
    w.set_string("general.architecture", architecture)
        .set_u32(key("block_count"), layers)
        .set_u32(key("context_length"), 64)
        .set_u32(key("embedding_length"), 64)
        .set_u32(key("feed_forward_length"), 2)
        .set_u32(key("attention.head_count"), 4)
        .set_u32(key("attention.key_length"), 4)
        .set_f32(key("attention.layer_norm_rms_epsilon"), 1e-6F);
    if (architecture == "gemma2")
      w.set_f32(key("attn_logit_softcapping"), 50.0F)
          .set_f32(key("final_logit_softcapping"), 30.0F);
    description d;
    d.layer_count = layers;
    d.layers.resize(layers);
    d.hidden_size = 64;
    d.ffn_size = 2;
    d.head_count = d.kv_head_count = d.head_size = 4;
    d.vocab_size = 2;
    d.has_post_norms = d.has_tied_embeddings = true;
    if (architecture == "gemma3")
      d.qk_norm = model::qk_norm_kind::heads;
    const auto add = [&](const model::tensor_requirement& t) {
      const auto count = t.shape.size() == 1 ? t.shape[0] : t.shape[0] * t.shape[1];
      w.add_tensor(t.name, model::tensor_type::f32, t.shape, std::vector<float>(count, 1.0F));
    };
    add(model::input_tensors(d).front());
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      for (const auto& tensor : model::layer_tensors(d, layer))
        add(tensor);
    add(model::output_tensors(d).front());
    REQUIRE(w.write(scratch / "model.gguf"));
    const auto file = gguf_file::open(scratch / "model.gguf");
    REQUIRE(file);
    const auto found = describe(*file);
    REQUIRE_MESSAGE(found, found.error().message);
    if (architecture == "gemma2")
      CHECK(found->layers.front().window == 4096); // as published, without a key
    return found->attention_scale;
  };
  CHECK(scale_of("gemma2", 46) == 0.25F); // 64 / 4 heads
  CHECK(scale_of("gemma2", 42) == 0.5F);  // heads of 4
  CHECK(scale_of("gemma3", 62) == 0.25F);
  CHECK(scale_of("gemma3", 48) == 0.5F);
}

TEST_CASE("mixtures have shared experts, dense layers first, and routers of their own") {
  const auto qwen = described_family("qwen2moe");
  CHECK(qwen.shared_ffn_size == 64);
  CHECK(qwen.has_shared_gate);
  CHECK_FALSE(qwen.has_normalised_experts);
  CHECK_FALSE(qwen.is_mixed());
  const auto glm = described_family("glm4moe");
  CHECK(pattern(glm, [&](std::uint32_t i) { return glm.layers[i].is_mixture; }) == ".x");
  CHECK(glm.is_mixed());
  CHECK(glm.router == model::router_kind::sigmoid);
  CHECK(glm.has_choice_bias);
  CHECK(glm.expert_scale == 1.5F);
  CHECK(glm.shared_ffn_size == 64);
  CHECK_FALSE(glm.has_shared_gate);
  const auto gpt = described_family("gpt_oss");
  CHECK(gpt.has_sinks);
  CHECK(gpt.has_expert_bias);
  CHECK(gpt.has_router_bias);
  CHECK(gpt.router == model::router_kind::softmax);
  CHECK(windows(gpt) == "x.");
  CHECK_FALSE(gpt.ropes.front().has_whole_borders);
}

TEST_CASE("families without norms before attention, or with another order of them") {
  const auto olmo = described_family("olmo2");
  CHECK_FALSE(olmo.has_pre_norms);
  CHECK(olmo.has_post_norms);
  CHECK(olmo.qk_norm == model::qk_norm_kind::rows);
  const auto olmo3 = described_family("olmo3");
  CHECK(olmo3.architecture == "olmo2");
  CHECK(windows(olmo3) == "xxx.");
  REQUIRE(olmo3.ropes.size() == 2);
  CHECK(olmo3.ropes[0].scaling == rope_scaling_kind::yarn);
  CHECK(olmo3.ropes[1].scaling == rope_scaling_kind::none);
  CHECK(olmo3.ropes[1].base == olmo3.ropes[0].base);
  CHECK(described_family("hunyuan").qk_norm == model::qk_norm_kind::rotated_heads);
  CHECK(described_family("seed_oss").ffn_norm_tensor == "post_attention_norm.weight");
  const auto cohere = described_family("cohere2");
  CHECK(cohere.norm == model::norm_kind::layer);
  CHECK(cohere.has_parallel_ffn);
  CHECK(windows(cohere) == "xxx.x");
  CHECK(rotations(cohere) == "xxx.x");
  CHECK(rotations(described_family("exaone4")) == "xxx.x");
}

TEST_CASE("granite's scales multiply, and its logits are divided") {
  const auto d = described_family("granite");
  CHECK(d.embedding_scale == 3.0F);
  CHECK(d.attention_scale == 0.2F);
  CHECK(d.residual_scale == 0.4F);
  CHECK(d.logit_scale == 2.0F);
  CHECK(described_family("cohere2").logit_scale == 2.0F); // multiplied
}

// GLM-4.5's last layer guesses further tokens; GGUF counts it.
TEST_CASE("layers that guess further tokens are left out") {
  const testing::scratch_directory scratch;
  const auto file = open("glm4moe");
  const auto with_extra = [&](std::uint32_t blocks, const std::string& tensor) {
    testing::gguf_writer out;
    for (const auto& key : file.keys()) {
      if (const auto text = file.get_string(key))
        out.set_string(key, *text);
      else if (const auto number = file.get_u32(key))
        out.set_u32(key, *number);
      else if (const auto flag = file.get_bool(key))
        out.set_bool(key, *flag);
      else
        out.set_f32(key, file.get_f32(key).value());
    }
    out.set_u32("glm4moe.block_count", blocks).set_u32("glm4moe.nextn_predict_layers", 1);
    for (const auto& each : file.tensors())
      out.add_tensor(each.name, model::tensor_type::f32, each.shape,
                     std::vector<float>(each.elements(), 1.0F));
    out.add_tensor(tensor, model::tensor_type::f32, {32}, std::vector<float>(32, 1.0F));
    REQUIRE(out.write(scratch / "model.gguf"));
    const auto copy = gguf_file::open(scratch / "model.gguf");
    REQUIRE(copy);
    return describe(*copy);
  };
  const auto d = with_extra(3, "blk.2.nextn.enorm.weight");
  REQUIRE_MESSAGE(d, d.error().message);
  CHECK(d->layer_count == 2);
  const auto other = with_extra(3, "blk.3.nextn.enorm.weight");
  REQUIRE_FALSE(other);
  CHECK(other.error().message.find("'blk.3.nextn.enorm.weight'") != std::string::npos);
  const auto none = with_extra(1, "blk.0.nextn.enorm.weight");
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("nextn_predict_layers") != std::string::npos);
}
