// Goal: latent attention and groups of experts are read as the file says, and refused by name where
// it contradicts itself. Method: the directories and files of DeepSeek's and GLM's goldens, and
// changed copies.
#include "runtime/model/slice.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/model/changed_directory.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::layer_heads;

TEST_CASE("the KV memory of latent attention has one head, of the latent and what is rotated") {
  const auto d = described(family("deepseek_v3"));
  CHECK(d.latent == model::latent_description{.query_rank = 32,
                                              .kv_rank = 32,
                                              .plain_size = 32,
                                              .rotated_size = 16,
                                              .value_size = 64,
                                              .has_joint_weights = true});
  CHECK(d.heads_of(1) == layer_heads{1, 48});
  CHECK(d.kv_size(0) == 48);
  CHECK(d.output_head_size(0) == 64);
  CHECK(d.ropes.front().dimension_count == 16);
  CHECK(d.ropes.front().magnitude == 1.0F);
  const double magnitude = 0.1 * 0.7 * std::log(4.0) + 1.0;
  CHECK(d.attention_scale == doctest::Approx(magnitude * magnitude / std::sqrt(48.0)));
  CHECK(d.expert_group_count == 4);
  CHECK(d.expert_group_used_count == 2);
  CHECK(d.has_choice_bias);
  CHECK_FALSE(d.layers[0].is_mixture);
  CHECK(d.layers[1].is_mixture);
  CHECK_FALSE(described(family("deepseek_v2")).has_choice_bias);
  CHECK(described(family("deepseek_v2_lite")).latent->query_rank == 0);
}

TEST_CASE("experts alone count as experts") {
  const auto d = described(family("glm4_moe_lite"));
  CHECK(d.expert_bytes == std::uint64_t{3} * 32 * 64 * 5 * 2); // F16
}

TEST_CASE("latent attention is cut between heads") {
  const auto d = described(family("deepseek_v3"));
  const auto slices = model::split(d, 2);
  REQUIRE_MESSAGE(slices, slices.error().message);
  for (const auto& slice : *slices) {
    CHECK(slice.heads.count == 4);
    CHECK(slice.kv_heads == model::index_range{0, 1});
  }
}

TEST_CASE("latent attention that does not fit together is refused by the field") {
  check_refused({
      {"deepseek_v3", [](json& c) { c.erase("kv_lora_rank"); }, "'kv_lora_rank' is missing"},
      {"deepseek_v3", set_field("kv_lora_rank", 64),
       "kv_a_proj_with_mqa.weight': expected [32, 80]"},
      {"deepseek_v3", set_field("kv_lora_rank", 0), "'kv_lora_rank'"},
      {"deepseek_v3", set_field("qk_nope_head_dim", 0), "of which 16 dimensions are rotated"},
      {"deepseek_v3", set_field("qk_rope_head_dim", 15), "of which 15 dimensions are rotated"},
      {"deepseek_v3", set_field("v_head_dim", 65), "o_proj.weight': expected [520, 32]"},
      {"deepseek_v3", set_field("q_lora_rank", nullptr), "q_proj.weight' is missing"},
      {"deepseek_v3", set_field("q_lora_rank", 4000000000U), "queries of rank 4000000000"},
      {"deepseek_v3", set_field("attention_bias", true), "'attention_bias'"},
      {"deepseek_v3", set_field("n_group", 3), "'n_group' is 3"},
      {"deepseek_v3", set_field("n_group", 8), "'n_group' is 8"}, // groups of one
      {"deepseek_v3", set_field("topk_group", 5), "5 groups"},
      {"deepseek_v3", set_field("topk_group", 0), "0 groups"},
      {"deepseek_v2", set_field("topk_method", "noaux_tc"), "'topk_method'"},
      {"glm4_moe_lite", set_field("mlp_layer_types", {"sparse", "dense"}), "'mlp_layer_types'"},
      {"glm4_moe_lite", set_field("mlp_layer_types", "dense"), "'mlp_layer_types'"},
      {"glm4_moe_lite", set_field("mlp_layer_types", {"dense", "dense"}), "'mlp_layer_types'"},
  });
}

TEST_CASE("rotated halves are read where the class says so") {
  changed copy("deepseek_v3");
  copy.config([](json& c) { c["rope_interleave"] = false; });
  CHECK(described(copy.path()).ropes.front().kind == model::rope_kind::neox);
}

TEST_CASE("a file with sizes and weights for keys and values of all heads gives the same model") {
  const scratch_directory scratch;
  for (const auto& name : latent_family_names) {
    CAPTURE(name);
    const family_golden golden(name);
    REQUIRE(golden.with_joint_weights().write(scratch / "older.gguf"));
    const auto older = described(scratch / "older.gguf");
    CHECK(older.latent->has_joint_weights);
    CHECK(older.head_size == golden.description.head_size);
    CHECK(older.kv_head_count == 1);
    CHECK(older.attention_scale == golden.description.attention_scale);
    CHECK(older.query_growth == golden.description.query_growth);
    CHECK(older.parameter_count == golden.description.parameter_count);
  }
}

TEST_CASE("joint weights beside those of keys and of values are left out") {
  const scratch_directory scratch;
  const family_golden golden("deepseek_v2");
  auto copy = golden.copy_as(model::tensor_type::f16);
  copy.add_tensor("blk.1.attn_kv_b.weight", model::tensor_type::f16, {32, 128},
                  std::vector<float>(std::size_t{32} * 128, 1.0F));
  REQUIRE(copy.write(scratch / "more.gguf"));
  const auto d = described(scratch / "more.gguf");
  CHECK_FALSE(d.latent->has_joint_weights);
  CHECK(d.parameter_count == golden.description.parameter_count);
}

TEST_CASE("a scale of yarn that is no number is refused by its key") {
  const scratch_directory scratch;
  auto copy = family_golden("deepseek_v3").copy_as(model::tensor_type::f16);
  copy.set_f32("deepseek2.rope.scaling.yarn_log_multiplier", NAN);
  REQUIRE(copy.write(scratch / "bad.gguf"));
  const auto file = model::open_model(scratch / "bad.gguf");
  REQUIRE(file);
  const auto refused = model::describe(**file);
  REQUIRE_FALSE(refused);
  CHECK(mentions(refused.error().message, "'deepseek2.rope.scaling.yarn_log_multiplier'"));
}

TEST_CASE("an older file with biases of the choice has a router of sigmoids") {
  const scratch_directory scratch;
  for (const auto& [name, router] : {std::pair("glm4_moe_lite", model::router_kind::sigmoid),
                                     {"deepseek_v2", model::router_kind::softmax}}) {
    auto copy = family_golden(name).copy_as(model::tensor_type::f16);
    copy.erase("deepseek2.expert_gating_func");
    REQUIRE(copy.write(scratch / "older.gguf"));
    CHECK(described(scratch / "older.gguf").router == router);
  }
}
