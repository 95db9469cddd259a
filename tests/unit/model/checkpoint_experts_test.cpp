// Directories of mixtures: per-expert tensors are read like GGUF's joint ones. Missing, duplicate,
// mismatched or unknown layouts are rejected by their published names. Method: copies of
// tests/data/model/families/NAME with one change. checkpoint_test.cpp checks that they equal their
// GGUF files.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "tests/unit/model/changed_directory.hpp"

using namespace baton;
using namespace baton::testing;
using model::checkpoint;
using model::json;

namespace {

const std::string mixtral = "model.layers.0.block_sparse_moe.";
const std::string qwen = "model.layers.0.mlp.";

std::vector<std::byte> expert_rows(const model::model_file& file, const std::string& tensor,
                                   std::uint64_t first, std::uint64_t count) {
  const auto found = file.find(tensor);
  REQUIRE(found);
  std::vector<std::byte> bytes(count * found->row_bytes());
  const auto copied = file.copy_rows(tensor, first, count, bytes);
  REQUIRE_MESSAGE(copied, copied.error().message);
  return bytes;
}

std::string refusal_of_renamed(const std::string& name, const std::string& from,
                               const std::string& to) {
  return changed(name).header([&](json& h) { rename(h, from.c_str(), to.c_str()); }).refusal();
}

} // namespace

TEST_CASE("rows of experts follow one another as in GGUF") {
  for (const auto* name : {"mixtral", "qwen3moe"}) {
    CAPTURE(name);
    const auto ours = checkpoint::open(family(name));
    const auto theirs = model::gguf_file::open(family(name).string() + ".gguf");
    REQUIRE_MESSAGE(ours, ours.error().message);
    REQUIRE(theirs);
    for (const std::string tensor :
         {"blk.0.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"}) {
      CAPTURE(tensor);
      const auto rows = ours->find(tensor)->rows();
      CHECK(ours->find(tensor)->shape == theirs->find(tensor)->shape);
      for (const auto& [first, count] :
           {std::pair{0UL, rows}, {20, 50}, {32, 32}, {31, 2}, {rows - 1, 1}, {rows, 0}})
        CHECK(expert_rows(*ours, tensor, first, count) ==
              expert_rows(*theirs, tensor, first, count));
      std::vector<std::byte> row(ours->find(tensor)->row_bytes());
      CHECK(!ours->copy_rows(tensor, rows, 1, row));
    }
  }
}

TEST_CASE("config.json defines the number of experts and their weights") {
  const auto with = [](const std::string& name, const std::function<void(json&)>& change) {
    return described(changed(name).config(change).path());
  };
  const auto renamed = with("qwen3moe", [](json& c) { // as before transformers 5
    rename(c, "num_local_experts", "num_experts");
  });
  CHECK(renamed.expert_count == 5);
  CHECK(renamed.expert_ffn_size == 32);
  CHECK(!renamed.has_normalised_experts);
  CHECK(with("qwen3moe", [](json& c) { c["norm_topk_prob"] = true; }).has_normalised_experts);
  CHECK(!with("qwen3moe", [](json& c) { c.erase("norm_topk_prob"); }).has_normalised_experts);
  CHECK(with("mixtral", [](json& c) { c["norm_topk_prob"] = false; }).has_normalised_experts);
  CHECK(with("mixtral", [](json& c) { c["sliding_window"] = 40; }).layers[0].window == 40);
  CHECK(with("mixtral", [](json& c) { c.erase("rope_parameters"); }).ropes.front().base == 1e6F);
}

TEST_CASE("mixtures are rejected by the unsupported field") {
  const auto erase = [](const char* key) { return [key](json& c) { c.erase(key); }; };
  check_refused({
      {"mixtral", erase("num_local_experts"), "'num_local_experts' is missing"},
      {"mixtral", erase("num_experts_per_tok"), "'num_experts_per_tok' is missing"},
      {"mixtral", set_field("num_experts_per_tok", 5), "'num_experts_per_tok' is 5"},
      {"mixtral", set_field("num_local_experts", "4"), "'num_local_experts' is a string"},
      {"mixtral", set_field("num_local_experts", 3),
       "'" + mixtral + "gate.weight': expected [32, 3]"},
      {"mixtral", set_field("num_local_experts", 5),
       "'" + mixtral + "experts.4.w2.weight' is missing"},
      {"mixtral", set_field("num_local_experts", 0), "'" + qwen + "gate_proj.weight' is missing"},
      {"qwen3moe", erase("num_local_experts"), "'num_experts' is missing"},
      {"qwen3moe", erase("moe_intermediate_size"), "'moe_intermediate_size' is missing"},
      {"qwen3moe", set_field("moe_intermediate_size", 64),
       "'" + qwen + "experts.*.gate_proj.weight'"},
      {"qwen3moe", set_field("norm_topk_prob", "yes"), "'norm_topk_prob' is a string"},
      {"qwen3moe", set_field("decoder_sparse_step", 2), "'decoder_sparse_step' is 2"},
      {"qwen3moe", set_field("mlp_only_layers", {1}), "'mlp_only_layers' is [1]"},
      {"qwen3moe", set_field("use_sliding_window", true), "'use_sliding_window' is true"},
      {"qwen3moe", set_field("attention_bias", true), "'attention_bias' is true"},
      {"glm4moe", set_field("first_k_dense_replace", 2), "'first_k_dense_replace' is 2"},
      {"glm4moe", set_field("num_hidden_layers", -2), "'num_hidden_layers'"},
      {"glm4moe", set_field("n_group", 2), "'n_group' is 2"},
      {"granitemoe", erase("num_experts_per_tok"), "'num_experts_per_tok' is missing"},
      {"granite4", set_field("num_local_experts", 4), "'num_local_experts' is 4"},
      {"granite4", set_field("layer_types", {"linear_attention", "full_attention"}),
       "'model.layers.0.mamba.in_proj.weight' is missing"},
      {"granitehybrid", set_field("mamba_proj_bias", true), "'mamba_proj_bias' is true"},
      {"granitehybrid", set_field("mamba_n_groups", 3), "do not fit together"},
      {"lfm2", set_field("conv_bias", true), "'conv_bias' is true"},
      {"lfm2", set_field("layer_types", {"conv", "full_attention"}),
       "of 2 layers, the model has 3"},
      {"qwen35", set_field("attn_output_gate", false), "'attn_output_gate' is false"},
      {"qwen35", set_field("layer_types", {"a", "b", "c", "d"}), "layer 0"},
      {"granite4", erase("shared_intermediate_size"), "'shared_intermediate_size' is missing"},
  });
}

TEST_CASE("tensors of experts are rejected by their published names") {
  const auto in_mixtral = [](const std::string& from, const std::string& to) {
    return refusal_of_renamed("mixtral", mixtral + from, to);
  };
  const auto expert = mixtral + "experts.";
  CHECK(mentions(in_mixtral("gate.weight", "x.weight"), "'" + mixtral + "gate.weight' is missing"));
  CHECK(
      mentions(in_mixtral("experts.3.w1.weight", "x.weight"), expert + "3.w1.weight' is missing"));
  CHECK(mentions(in_mixtral("experts.1.w1.weight", expert + "9.w1.weight"),
                 expert + "1.w1.weight' is missing"));
  CHECK(mentions(in_mixtral("experts.1.w1.weight", expert + "02.w1.weight"),
                 "' duplicates '" + expert));
  const auto layout =
      "this build reads a tensor for each and each matrix, as '" + expert + "0.w1.weight'";
  for (const auto& other :
       {expert + "1.w4.weight", expert + "*.w1.weight", expert + "one.w1.weight",
        expert + "99999999999999999999.w1.weight", expert + "1", qwen + "experts.gate_up_proj",
        qwen + "experts.1.gate_proj.weight"}) {
    const auto refusal = in_mixtral("experts.1.w1.weight", other);
    CHECK(mentions(refusal, "'" + other + "'"));
    CHECK(mentions(refusal, layout));
  }
  changed unlike("mixtral");
  unlike.header([&](json& h) { h[expert + "2.w3.weight"]["shape"] = {16, 64}; });
  CHECK(mentions(unlike.refusal(), expert + "2.w3.weight' is F16 [16, 64], but '" + expert +
                                       "0.w3.weight' is F16 [32, 32]"));
  changed none("qwen3moe");
  none.header([](json& h) {
    for (const auto* i : {"0", "1", "2", "3", "4"})
      rename(h, (qwen + "experts." + i + ".up_proj.weight").c_str(),
             (std::string("model.layers.9.mlp.experts.") + i + ".up_proj.weight").c_str());
  });
  CHECK(mentions(none.refusal(), "'" + qwen + "experts.*.up_proj.weight' is missing"));
}

TEST_CASE("experts of several files are read through their index") {
  const auto moved = mixtral + "experts.2.w1.weight";
  const auto opened = [&](const std::string& file_in_index) {
    changed copy("mixtral");
    const auto whole = copy.path() / "model.safetensors";
    const auto rows =
        expert_rows(*checkpoint::open(copy.path()), "blk.0.ffn_gate_exps.weight", 64, 32);
    const std::string data(reinterpret_cast<const char*>(rows.data()), rows.size());
    json index, header;
    copy.header([&](json& h) {
      for (const auto& [name, value] : h.items())
        if (name != "__metadata__")
          index["weight_map"][name] = "rest.safetensors";
      header[moved] = {{"dtype", "F16"}, {"shape", {32, 32}}, {"data_offsets", {0, data.size()}}};
      rename(h, moved.c_str(), "x.rotary_emb.inv_freq"); // which is passed over
    });
    index["weight_map"][moved] = file_in_index;
    index["weight_map"]["x.rotary_emb.inv_freq"] = "one.safetensors";
    std::filesystem::rename(whole, copy.path() / "rest.safetensors");
    write_file(copy.path() / "one.safetensors", safetensors_bytes(header.dump(), data));
    write_file(copy.path() / "model.safetensors.index.json", index.dump());
    CHECK(copy.refusal().empty() == (file_in_index == "one.safetensors"));
    const auto file = checkpoint::open(copy.path());
    return file ? expert_rows(*file, "blk.0.ffn_gate_exps.weight", 0, 128)
                : std::vector<std::byte>();
  };
  CHECK(opened("rest.safetensors").empty()); // does not hold it
  CHECK(opened("one.safetensors") ==
        expert_rows(*checkpoint::open(family("mixtral")), "blk.0.ffn_gate_exps.weight", 0, 128));
}

TEST_CASE("quantised experts are joined like others") {
  const auto expert = qwen + "experts.1.up_proj.";
  const auto file = checkpoint::open(family("gptq_qwen3moe"));
  REQUIRE_MESSAGE(file, file.error().message);
  const auto up = file->find("blk.0.ffn_up_exps.weight");
  REQUIRE(up);
  CHECK(up->type == model::tensor_type::q4_0);
  CHECK(up->shape == std::vector<std::uint64_t>{32, 32, 4});
  CHECK(described(family("gptq_qwen3moe")).has_normalised_experts);
  CHECK(mentions(refusal_of_renamed("gptq_qwen3moe", expert + "scales", "x.scales"),
                 "'" + expert + "qweight' lacks its scales"));
  // Other zero points need another type, and all experts of a layer share one type.
  CHECK(mentions(changed("gptq_qwen3moe").byte_of(expert + "qzeros").refusal(),
                 "'" + expert + "qweight' is Q5_0 [32, 32], but '" + qwen +
                     "experts.0.up_proj.qweight' is Q4_0 [32, 32]"));
  CHECK(mentions(changed("gptq_qwen3moe").byte_of(expert + "bias").refusal(),
                 "'" + expert + "bias'"));
}

// transformers with save_original_format=False.
TEST_CASE("experts in one tensor for all are read by their halves") {
  const auto apart = checkpoint::open(family("granitemoe"));
  REQUIRE_MESSAGE(apart, apart.error().message);
  const auto up = apart->find("blk.0.ffn_up_exps.weight");
  REQUIRE(up);
  CHECK(up->shape == std::vector<std::uint64_t>{32, 32, 5});
  const auto rows = expert_rows(*apart, "blk.0.ffn_up_exps.weight", 0, 160);
  CHECK(expert_rows(*apart, "blk.0.ffn_up_exps.weight", 31, 34) ==
        std::vector<std::byte>(rows.begin() + 31 * 64, rows.begin() + 65 * 64));
  const auto gguf = model::open_model(family("granitemoe").string() + ".gguf");
  REQUIRE(gguf);
  std::vector<std::byte> expected(rows.size());
  REQUIRE((*gguf)->copy_rows("blk.0.ffn_up_exps.weight", 0, 160, expected));
  CHECK(rows == expected);
  const auto input = std::string("model.layers.0.block_sparse_moe.input_linear.weight");
  changed odd("granitemoe");
  odd.header([&](json& h) { h[input]["shape"] = {64, 5, 32}; });
  CHECK(mentions(odd.refusal(), "'" + input + "' is F16 [64, 5, 32], not of gates and ups"));
}

TEST_CASE("layers behind the model's own, which guess further tokens, are left out") {
  const auto without = [](const std::string& name) {
    changed copy("glm4moe");
    copy.header([&](json& h) { rename(h, "lm_head.weight", name.c_str()); });
    return copy.refusal();
  };
  const std::string left_out = "model.layers.2.eh_proj.weight",
                    kept = "model.layers.1.eh_proj.weight";
  CHECK(mentions(without(left_out), "'lm_head.weight' is missing"));
  changed tied("glm4moe"); // without that complaint
  tied.header([&](json& h) { rename(h, "lm_head.weight", left_out.c_str()); });
  tied.config([](json& c) { c["tie_word_embeddings"] = true; });
  CHECK(tied.refusal() == "");
  tied.header([&](json& h) { rename(h, left_out.c_str(), kept.c_str()); });
  CHECK(mentions(tied.refusal(), "'" + kept + "'"));
}
