// Goal: sizes of single layers, shared keys and embeddings of layers are read as the file says, and
// refused by name where it contradicts itself. Method: the directories and files of Gemma 4's
// goldens, and changed copies.
#include "runtime/model/slice.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/model/changed_directory.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace baton;
using namespace baton::testing;
using model::json;
using model::layer_heads;

namespace {

// config.json as published, before the list of layers.
void spell_as_published(json& config) {
  const bool has_own_heads = config["attention_k_eq_v"].get<bool>();
  config.erase("per_layer_config");
  config["global_head_dim"] = 64;
  config["num_global_key_value_heads"] = has_own_heads ? json(1) : json();
}

} // namespace

TEST_CASE("gemma4 has heads of two sizes, and keys as values where it has no window") {
  const auto d = described(family("gemma4"));
  for (const std::uint32_t layer : {0U, 2U}) {
    CHECK(d.heads_of(layer) == layer_heads{2, 32});
    CHECK(d.layers[layer].window == 40);
    CHECK_FALSE(d.layers[layer].has_keys_as_values);
    CHECK(d.layers[layer + 1].window == 0);
    CHECK(d.heads_of(layer + 1) == layer_heads{1, 64});
    CHECK(d.layers[layer + 1].has_keys_as_values);
    CHECK(d.q_size(layer) == 128);
    CHECK(d.q_size(layer + 1) == 256);
    CHECK(d.kv_size(layer) == 64);
    CHECK(d.kv_size(layer + 1) == 64);
  }
  CHECK(d.q_size_max() == 256);
  CHECK(d.has_value_norm);
  CHECK(d.has_layer_scales);
  CHECK(d.attention_scale == 1.0F);
  CHECK(d.final_soft_cap == 3.0F);
  CHECK(d.ropes[0].has_factors);
  CHECK(d.ropes[0].dimension_count == 64);
  CHECK(d.ropes[1].dimension_count == 32);
  CHECK(d.kv_layers(0, 4) == 4);
  CHECK(d.uncut_feature().empty());
}

TEST_CASE("gemma4 shares keys between layers of a kind, whose ffn is wide") {
  const auto d = described(family("gemma4e"));
  CHECK(d.layers[2].kv_layer == 0U);
  CHECK(d.layers[3].kv_layer == 1U);
  CHECK(d.kv_layers(0, 4) == 2);
  CHECK(d.ffn_size_of(1) == 32);
  CHECK(d.ffn_size_of(2) == 64);
  CHECK(d.ffn_size_max() == 64);
  CHECK(d.layer_input_size == 32);
  for (const auto& cut : {model::partition(d, 2).error(), model::split(d, 2).error()})
    CHECK(cut.code == errc::does_not_fit);
  CHECK(mentions(model::partition(d, 2).error().message, "embeddings of each layer"));
  CHECK(model::partition(d, 1));
}

TEST_CASE("gemma4's published form of config.json gives the same model") {
  for (const auto& name : uneven_family_names) {
    CAPTURE(name);
    changed copy(name);
    copy.config(spell_as_published);
    CHECK(copy.refusal() == "");
    const auto published = described(copy.path()), newer = described(family(name));
    CHECK(published.layers == newer.layers);
    CHECK(published.head_size == newer.head_size);
    CHECK(published.kv_head_count == newer.kv_head_count);
    CHECK(published.layer_bytes == newer.layer_bytes);
  }
}

TEST_CASE("tensors that a layer with shared keys replaces are left out") {
  const scratch_directory scratch;
  const family_golden golden("gemma4e");
  auto copy = golden.copy_as(model::tensor_type::f16);
  copy.add_tensor("blk.3.attn_k.weight", model::tensor_type::f16, {32, 128},
                  std::vector<float>(std::size_t{32} * 128, 1.0F));
  REQUIRE(copy.write(scratch / "more.gguf"));
  const auto d = described(scratch / "more.gguf");
  CHECK(d.parameter_count == golden.description.parameter_count);
  const auto names = model::tensors_of(d, model::whole(d));
  CHECK(std::ranges::find(names, "blk.3.attn_k.weight") == names.end());
  CHECK(std::ranges::find(names, "blk.1.attn_k.weight") != names.end());
}

TEST_CASE("sizes of layers that do not fit together are refused by the field") {
  const auto of_layer = [](const char* layer, const char* key, json value) {
    return [=](json& c) { c["per_layer_config"][layer][key] = value; };
  };
  check_refused({
      {"gemma4", set_field("layer_types", nullptr), "'layer_types'"},
      {"gemma4", [](json& c) { c["layer_types"][3] = "sliding_attention"; }, "'layer_types'"},
      {"gemma4", of_layer("1", "intermediate_size", 64), "'per_layer_config'"},
      {"gemma4", of_layer("1", "head_dim", 32), "'per_layer_config'"},
      {"gemma4", of_layer("1", "head_dim", "64"), "'per_layer_config'"},
      {"gemma4", set_field("per_layer_config", {1}), "'per_layer_config'"},
      {"gemma4", of_layer("1", "num_key_value_heads", 3), "cannot share 3 KV heads"},
      {"gemma4", of_layer("1", "num_key_value_heads", 0), "'num_key_value_heads'"},
      {"gemma4", set_field("attention_k_eq_v", false), "v_proj.weight' is missing"},
      {"gemma4", set_field("use_bidirectional_attention", "all"), "'use_bidirectional_attention'"},
      {"gemma4", set_field("rope_parameters", nullptr), "'rope_parameters'"},
      {"gemma4", set_field("num_kv_shared_layers", 3), "'num_kv_shared_layers'"},
      {"gemma4", set_field("num_kv_shared_layers", 5), "'num_kv_shared_layers'"},
      {"gemma4", set_field("hidden_size_per_layer_input", 32), "embed_tokens_per_layer.weight"},
      {"gemma4moe", set_field("top_k_experts", nullptr), "'top_k_experts'"},
      {"gemma4moe", set_field("enable_moe_block", false), "has no place"},
      {"gemma4e", set_field("use_double_wide_mlp", false), "mlp."},
      {"gemma4e", set_field("num_kv_shared_layers", 0), "self_attn.k_proj.weight' is missing"},
      {"gemma4e", set_field("hidden_size_per_layer_input", 0), "has no place"},
      {"gemma4e", set_field("hidden_size_per_layer_input", 4294967295),
       "'hidden_size_per_layer_input'"},
  });
  const auto of_images = set_field("use_bidirectional_attention", "vision"); // text is causal
  CHECK(refusal_of("gemma4", of_images) == "");
}

TEST_CASE("ranks have whole heads of layers of every size") {
  const auto d = described(family("gemma4"));
  const auto slices = model::split(d, 2, {}, d.cuts);
  REQUIRE(slices);
  const auto& second = slices->back();
  CHECK(second.heads == model::index_range{2, 2});
  CHECK(model::kv_heads_of(d, second.heads, 0) == model::index_range{1, 1});
  CHECK(model::kv_heads_of(d, second.heads, 1) == model::index_range{0, 1});
  const auto own = model::sliced(d, second);
  CHECK(own.heads_of(0) == layer_heads{1, 32});
  CHECK(own.heads_of(1) == layer_heads{1, 64});
  CHECK(own.largest_heads() == layer_heads{1, 64});
  const model::head_map full(d, second, 1);
  CHECK(full.of(0) == model::index_range{0, 2});
}
