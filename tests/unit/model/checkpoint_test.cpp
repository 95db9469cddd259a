// Model directories as Hugging Face's libraries write them: the same description as the GGUF file
// of the same model, in both forms of config.json. Errors name the field, the tensor or the file as
// published. Method: copies of tests/data/model/families/NAME with one change.
#include "runtime/model/checkpoint/checkpoint.hpp"
#include "runtime/model/gguf/gguf.hpp"
#include "runtime/model/open/open_model.hpp"
#include "runtime/model/slice.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/model/changed_directory.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>

using namespace baton;
using namespace baton::testing;
using model::checkpoint;
using model::description;
using model::json;

namespace {

// The families that have a directory beside their file.
std::vector<std::string> directory_names() {
  auto names = all_family_names();
  std::erase_if(names, [](const auto& name) { return forms_of(name).size() == 1; });
  return names;
}

void check_same_rope(const model::rope_description& a, const model::rope_description& b) {
  CHECK(a.dimension_count == b.dimension_count);
  CHECK(a.base == doctest::Approx(b.base).epsilon(1e-6));
  CHECK(a.scaling == b.scaling);
  CHECK(a.scaling_factor == b.scaling_factor);
  CHECK(a.has_factors == b.has_factors);
  CHECK(a.original_context_size == b.original_context_size);
  CHECK(a.magnitude == doctest::Approx(b.magnitude).epsilon(1e-6));
  CHECK(a.fast_turns == b.fast_turns);
  CHECK(a.slow_turns == b.slow_turns);
  CHECK(a.has_whole_borders == b.has_whole_borders);
}

// Everything that an engine reads, except the rows of q and k.
void check_same(const description& a, const description& b) {
  CHECK(a.architecture == b.architecture);
  CHECK(a.layer_count == b.layer_count);
  CHECK(a.hidden_size == b.hidden_size);
  CHECK(a.ffn_size == b.ffn_size);
  CHECK(a.head_count == b.head_count);
  CHECK(a.kv_head_count == b.kv_head_count);
  CHECK(a.head_size == b.head_size);
  CHECK(a.vocab_size == b.vocab_size);
  CHECK(a.context_length == b.context_length);
  CHECK(a.rms_epsilon == b.rms_epsilon);
  CHECK(a.activation == b.activation);
  CHECK(a.norm == b.norm);
  CHECK(a.qk_norm == b.qk_norm);
  CHECK(a.has_pre_norms == b.has_pre_norms);
  CHECK(a.has_parallel_ffn == b.has_parallel_ffn);
  CHECK(a.residual_scale == b.residual_scale);
  CHECK(a.logit_scale == b.logit_scale);
  CHECK(a.query_growth == b.query_growth);
  CHECK(a.router == b.router);
  CHECK(a.has_choice_bias == b.has_choice_bias);
  CHECK(a.expert_scale == b.expert_scale);
  CHECK(a.shared_ffn_size == b.shared_ffn_size);
  CHECK(a.has_shared_gate == b.has_shared_gate);
  CHECK(a.has_attention_bias == b.has_attention_bias);
  CHECK(a.has_fused_qkv == b.has_fused_qkv);
  CHECK(a.has_fused_ffn == b.has_fused_ffn);
  CHECK(a.has_post_norms == b.has_post_norms);
  CHECK(a.has_tied_embeddings == b.has_tied_embeddings);
  CHECK(a.embedding_scale == b.embedding_scale);
  CHECK(a.attention_scale == b.attention_scale);
  CHECK(a.attention_soft_cap == b.attention_soft_cap);
  CHECK(a.final_soft_cap == b.final_soft_cap);
  CHECK(a.layers == b.layers);
  REQUIRE(a.recurrence.has_value() == b.recurrence.has_value());
  if (a.recurrence) { // directories have heads in another order
    CHECK(a.recurrence->kind == b.recurrence->kind);
    CHECK(a.recurrence->channels == b.recurrence->channels);
    CHECK(a.recurrence->convolution_rows == b.recurrence->convolution_rows);
    CHECK(a.recurrence->state_bytes() == b.recurrence->state_bytes());
    CHECK(a.recurrence->norm_size == b.recurrence->norm_size);
    CHECK(a.has_attention_gate == b.has_attention_gate);
  }
  auto latent = a.latent;
  if (latent) { // directories have keys and values in one tensor
    CHECK(latent->has_joint_weights);
    latent->has_joint_weights = b.latent && b.latent->has_joint_weights;
  }
  CHECK(latent == b.latent);
  CHECK(a.expert_group_count == b.expert_group_count);
  CHECK(a.expert_group_used_count == b.expert_group_used_count);
  CHECK(a.parameter_count == b.parameter_count);
  CHECK(a.expert_count == b.expert_count);
  CHECK(a.expert_used_count == b.expert_used_count);
  CHECK(a.expert_ffn_size == b.expert_ffn_size);
  CHECK(a.has_normalised_experts == b.has_normalised_experts);
  CHECK(a.expert_bytes == b.expert_bytes);
  CHECK(a.layer_bytes == b.layer_bytes);
  CHECK(a.head_bytes == b.head_bytes);
  REQUIRE(a.ropes.size() == b.ropes.size());
  for (std::size_t i = 0; i < a.ropes.size(); ++i)
    check_same_rope(a.ropes[i], b.ropes[i]);
}

// config.json as written by transformers before version 5.
void spell_as_before(json& config) {
  const auto rope = config.at("rope_parameters");
  config.erase("rope_parameters");
  const bool has_two = rope.contains("full_attention");
  auto full = has_two ? rope["full_attention"] : rope;
  config["rope_theta"] = full["rope_theta"];
  if (has_two)
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
  full.erase("rope_theta");
  if (full.contains("partial_rotary_factor")) {
    config["partial_rotary_factor"] = full["partial_rotary_factor"];
    full.erase("partial_rotary_factor");
  }
  config["rope_scaling"] = nullptr;
  if (full["rope_type"] != "default")
    config["rope_scaling"] = full;
}

} // namespace

TEST_CASE("a directory gives the model of its GGUF file") {
  for (const auto& name : directory_names()) {
    CAPTURE(name);
    const auto ours = described(family(name));
    check_same(ours, described(family(name).string() + ".gguf"));
    const bool has_pairs = name == "cohere2" || name.starts_with("ernie4_5") || name == "glm4" ||
                           ours.latent.has_value();
    CHECK((ours.ropes.front().kind == model::rope_kind::normal) == has_pairs);
    CHECK(ours.name == name);
    CHECK(ours.file_type == "F16");
  }
}

TEST_CASE("the older form of config.json gives the same model") {
  for (const auto& name : directory_names()) {
    if (name.starts_with("gemma4")) // is newer; uneven_layers_test.cpp has its forms
      continue;
    CAPTURE(name);
    changed copy(name);
    copy.config(spell_as_before);
    CHECK(copy.refusal() == "");
    check_same(described(copy.path()), described(family(name)));
  }
}

TEST_CASE("fields missing in config.json have the defaults of transformers") {
  const auto without = [](const std::string& name, const char* field) {
    changed copy(name);
    copy.config(spell_as_before).config([&](json& c) { c.erase(field); });
    CAPTURE(copy.refusal());
    return described(copy.path());
  };
  CHECK(without("qwen3", "rope_theta").ropes.front().base == 1e4F);
  CHECK(without("gemma3", "rope_theta").ropes.front().base == 1e6F);
  CHECK(without("smollm3", "rope_theta").ropes.front().base == 2e6F);
  CHECK(without("gemma2", "tie_word_embeddings").has_tied_embeddings);
  CHECK(without("phi3", "sliding_window").layers.front().window == 0);
  CHECK(mentions(refusal_of("qwen2", [](json& c) { c.erase("tie_word_embeddings"); }),
                 "'lm_head.weight' is missing"));
}

TEST_CASE("config.json is rejected by the unsupported field") {
  const auto rope = [](const char* key, json value) {
    return [key, value](json& c) { c["rope_parameters"][key] = value; };
  };
  check_refused({
      {"llama3", set_field("architectures", {"MambaForCausalLM"}), "'MambaForCausalLM'"},
      {"llama3", set_field("architectures", json::array()), "'architectures'"},
      {"llama3", [](json& c) { c.erase("architectures"); }, "'architectures'"},
      {"llama3", set_field("quantization_config", {{"quant_method", "awq"}}),
       "'quantization_config'"},
      {"llama3", set_field("attention_bias", true), "'attention_bias'"},
      {"llama3", set_field("mlp_bias", true), "'mlp_bias'"},
      {"llama3", set_field("hidden_act", "relu"), "'hidden_act'"},
      {"gemma2", set_field("hidden_activation", "gelu"), "'hidden_activation'"},
      {"llama3", rope("rope_type", "longrope"), "'longrope'"},
      {"llama3", rope("rope_type", "3d"), "'3d'"},
      {"phi3", rope("rope_type", "longrope"), "'long_factor'"},
      {"qwen3", rope("rope_type", "yarn"), "'yarn' without a factor"},
      {"qwen3", rope("rope_type", "llama3"), "'llama3'"},
      {"llama3", rope("low_freq_factor", nullptr), "'low_freq_factor'"},
      {"llama3", rope("factor", 0), "'factor'"},
      {"mistral", rope("factor", nullptr), "factor"},
      {"llama3", rope("partial_rotary_factor", 0.5), "'partial_rotary_factor'"},
      {"phi3", rope("partial_rotary_factor", 2.0), "'partial_rotary_factor'"},
      {"gemma3", [](json& c) { c["rope_parameters"]["sliding_attention"]["rope_type"] = "linear"; },
       "sliding_attention"},
      {"qwen2", set_field("use_sliding_window", true), "'use_sliding_window'"},
      {"qwen2", set_field("layer_types", {"full_attention", "sliding_attention"}), "layer 1"},
      {"gemma2", set_field("layer_types", {"full_attention", "linear_attention", "full_attention"}),
       "layer 1"},
      {"gemma2", set_field("layer_types", {"full_attention"}), "'layer_types' is of 1 layers"},
      {"gemma2", set_field("sliding_window", nullptr), "'sliding_window'"},
      {"gemma2", set_field("query_pre_attn_scalar", 24), "'query_pre_attn_scalar'"},
      {"gemma2", set_field("attn_logit_softcapping", nullptr), "'attn_logit_softcapping'"},
      {"gemma3", set_field("final_logit_softcapping", 30.0), "'final_logit_softcapping'"},
      {"smollm3", set_field("no_rope_layers", {1, 1, "0", 1, 1}), "'no_rope_layers'"},
      {"llama3", set_field("num_hidden_layers", "2"), "'num_hidden_layers'"},
      {"llama3", set_field("num_hidden_layers", -2), "'num_hidden_layers'"},
      {"llama3", set_field("num_hidden_layers", 0), "'num_hidden_layers'"},
      {"llama3", set_field("num_hidden_layers", 3), "'model.layers.2.input_layernorm.weight'"},
      {"llama3", set_field("num_hidden_layers", 1), "'model.layers.1."},
      {"llama3", set_field("hidden_size", 4294967296), "'hidden_size'"},
      {"llama3", set_field("intermediate_size", 64), "mlp."},
      {"llama3", set_field("rms_norm_eps", nullptr), "'rms_norm_eps'"},
      {"llama3", set_field("vocab_size", 63), "vocab_size"},
      {"llama3", set_field("max_position_embeddings", nullptr), "'max_position_embeddings'"},
  });
}

TEST_CASE("fields that are off, or that the class ignores, are accepted") {
  const auto taken = [](const std::string& name, const std::function<void(json&)>& change) {
    CHECK(refusal_of(name, change) == "");
  };
  taken("llama3", [](json& c) { c["attention_bias"] = false, c["quantization_config"] = nullptr; });
  taken("llama3", [](json& c) { c["sliding_window"] = 7, c["some_new_field"] = {1, 2}; });
  taken("qwen2", [](json& c) { c["sliding_window"] = 7, c["use_sliding_window"] = false; });
  taken("mistral", [](json& c) { c["sliding_window"] = nullptr; });
  taken("smollm3", [](json& c) { c.erase("no_rope_layers"), c["no_rope_layer_interval"] = 4; });
  taken("llama3", [](json& c) { c["head_dim"] = nullptr; });
}

TEST_CASE("tensors of a directory are rejected by their published names") {
  const auto header = [](const std::string& name, const std::function<void(json&)>& change) {
    return changed(name).header(change).refusal();
  };
  CHECK(mentions(header("llama3", [](json& h) { rename(h, "model.norm.weight", "norm"); }),
                 "'model.norm.weight' is missing"));
  CHECK(mentions(header("llama3",
                        [](json& h) {
                          rename(h, "model.layers.1.mlp.up_proj.weight",
                                 "model.layers.1.mlp.x.weight");
                        }),
                 "'model.layers.1.mlp.up_proj.weight' is missing"));
  CHECK(mentions(header("qwen3",
                        [](json& h) {
                          rename(h, "model.layers.0.mlp.gate_proj.weight",
                                 "model.layers.0.mlp.gate_up_proj.weight");
                        }),
                 "duplicates"));
  CHECK(mentions(header("qwen3",
                        [](json& h) {
                          rename(h, "model.layers.0.self_attn.q_norm.weight",
                                 "model.layers.0.mlp.bias");
                        }),
                 "'model.layers.0.self_attn.q_norm.weight' is missing"));
}

TEST_CASE("a head that config.json ties, but that differs from the embedding, is used") {
  changed tied("qwen3"); // its head is not tied
  const auto untied = described(tied.path());
  CHECK(!untied.has_tied_embeddings);
  tied.config([](json& c) { c["tie_word_embeddings"] = true; });
  check_same(described(tied.path()), untied);
  const auto rows_of = [](const std::filesystem::path& path, const char* name) {
    const auto file = model::open_model(path).value();
    const auto tensor = file->find(name);
    REQUIRE(tensor);
    std::vector<std::byte> bytes(tensor->size_bytes());
    REQUIRE(file->copy_rows(name, 0, tensor->rows(), bytes));
    return bytes;
  };
  CHECK(rows_of(tied.path(), "output.weight") == rows_of(family("qwen3"), "output.weight"));
  // A head that equals the embedding loses nothing.
  tied.copy("model.embed_tokens.weight", "lm_head.weight");
  CHECK(described(tied.path()).has_tied_embeddings);
  tied.byte_of("lm_head.weight");
  CHECK(!described(tied.path()).has_tied_embeddings);
  tied.byte_of("lm_head.weight");
  CHECK(described(tied.path()).has_tied_embeddings);
  // A tensor of another type is not equal.
  changed half("qwen3");
  half.config([](json& c) { c["tie_word_embeddings"] = true; })
      .copy("model.embed_tokens.weight", "lm_head.weight")
      .header([](json& h) {
        auto& dtype = h["lm_head.weight"]["dtype"];
        dtype = dtype == "BF16" ? "F16" : "BF16";
      });
  CHECK(!described(half.path()).has_tied_embeddings);
}

TEST_CASE("buffers of old versions are ignored") {
  changed old("llama3");
  const auto size = described(old.path()).parameter_count;
  const auto file = old.path() / "model.safetensors";
  const auto data_bytes = [&] {
    const auto bytes = read_file(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    return bytes.size() - sizeof(length) - length;
  }();
  write_file(file, read_file(file) + bytes_of({1.0F, 0.5F}));
  old.header([&](json& h) {
    h["model.layers.0.self_attn.rotary_emb.inv_freq"] = {
        {"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {data_bytes, data_bytes + 8}}};
  });
  CHECK(old.refusal() == "");
  CHECK(described(old.path()).parameter_count == size);
}

TEST_CASE("an index that does not match its files is rejected by name") {
  const auto first_file = [](json& index) { return index["weight_map"].begin().value(); };
  const auto norm = "model.norm.weight";
  CHECK(changed("qwen2").refusal() == "");
  CHECK(mentions(
      changed("qwen2").index([&](json& i) { i["weight_map"][norm] = "x.safetensors"; }).refusal(),
      "x.safetensors"));
  CHECK(mentions(changed("qwen2")
                     .index([&](json& i) { i["weight_map"][norm] = "../x.safetensors"; })
                     .refusal(),
                 "'model.norm.weight'"));
  CHECK(mentions(changed("qwen2").index([&](json& i) { i["weight_map"][norm] = 7; }).refusal(),
                 "'model.norm.weight'"));
  CHECK(mentions(changed("qwen2")
                     .index([&](json& i) { i["weight_map"]["a.weight"] = first_file(i); })
                     .refusal(),
                 "'a.weight' is not in"));
  CHECK(mentions(changed("qwen2").index([](json& i) { i.erase("weight_map"); }).refusal(),
                 "'weight_map'"));
  changed twice("qwen2");
  const auto map =
      json::parse(read_file(twice.path() / "model.safetensors.index.json"))["weight_map"];
  const auto file = map["model.norm.weight"].get<std::string>();
  std::filesystem::copy(twice.path() / file, twice.path() / "again.safetensors");
  twice.index([](json& i) { i["weight_map"]["model.norm.weight"] = "again.safetensors"; });
  CHECK(mentions(twice.refusal(), "duplicates"));
  changed missing("qwen2");
  std::filesystem::remove(missing.path() / file);
  CHECK(mentions(missing.refusal(), file));
}

TEST_CASE("a directory with missing files is rejected by their names") {
  for (const auto* name : {"config.json", "model.safetensors"}) {
    changed copy("llama3");
    std::filesystem::remove(copy.path() / name);
    CHECK(mentions(copy.refusal(), name));
  }
}

TEST_CASE("pickled weights are rejected with the command that converts them") {
  for (const auto* old : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    changed copy("qwen3");
    std::filesystem::rename(copy.path() / "model.safetensors", copy.path() / old);
    const auto why = copy.refusal();
    CHECK(mentions(why, "Python's pickles"));
    CHECK(mentions(
        why, ("M.from_pretrained('" + copy.path().string() + "', torch_dtype='auto')").c_str()));
  }
}

TEST_CASE("a directory's fingerprint depends on its model alone") {
  const auto print = [](const std::filesystem::path& path) {
    const auto file = checkpoint::open(path);
    REQUIRE_MESSAGE(file, file.error().message);
    return file->fingerprint();
  };
  const auto own = print(family("llama3"));
  CHECK(own == print(changed("llama3").path()));
  CHECK(own == print(family("llama3") / "")); // the same directory
  CHECK(own != print(family("qwen3")));
  const auto changed_print = [&](const std::function<void(json&)>& change) {
    changed copy("llama3");
    copy.config(change);
    return print(copy.path());
  };
  CHECK(own == changed_print([](json& c) { c["use_cache"] = false; }));
  CHECK(own != changed_print([](json& c) { c["rms_norm_eps"] = 1e-4; }));
  CHECK(own != changed_print([](json& c) { c["rope_parameters"]["factor"] = 4; }));
  changed other("llama3");
  change_header(other.path() / "model.safetensors", [](json& h) {
    h["__metadata__"] = {{"format", "x"}};
  });
  CHECK(own != print(other.path()));
  changed tuned("llama3");
  tuned.byte_of("model.norm.weight");
  CHECK(own != print(tuned.path()));
}

TEST_CASE("Gemma's norms include the added one, and rows are copied within bounds") {
  const auto file = checkpoint::open(family("gemma2"));
  const auto twin = model::gguf_file::open(family("gemma2").string() + ".gguf");
  REQUIRE(file);
  REQUIRE(twin);
  for (const auto* name : {"blk.0.attn_norm.weight", "blk.2.post_ffw_norm.weight",
                           "blk.1.post_attention_norm.weight", "output_norm.weight"}) {
    CAPTURE(name);
    const auto tensor = file->find(name);
    REQUIRE(tensor);
    REQUIRE(tensor->type == model::tensor_type::f32);
    std::vector<float> ours(tensor->elements()), theirs(tensor->elements());
    REQUIRE(file->copy_rows(name, 0, 1, std::as_writable_bytes(std::span(ours))));
    REQUIRE(twin->copy_rows(name, 0, 1, std::as_writable_bytes(std::span(theirs))));
    for (std::size_t i = 0; i < ours.size(); ++i)
      CHECK(ours[i] == doctest::Approx(theirs[i]).epsilon(1e-6));
  }
  std::array<std::byte, 64> row{}; // of 32 float16
  CHECK(file->copy_rows("token_embd.weight", 63, 1, row));
  CHECK(!file->copy_rows("token_embd.weight", 64, 1, row));
  CHECK(!file->copy_rows("token_embd.weight", 0, 2, row));
  CHECK(!file->copy_rows("no.weight", 0, 1, row));
}

TEST_CASE("a directory quantised by GPTQ is described by its contents") {
  const auto llama = described(family("gptq_llama"));
  CHECK(llama.file_type == "GPTQ 4-bit, group 128");
  const std::uint64_t weights = 2 * 128 * 128 + 2 * 128 * 16 + 3 * 128 * 128;
  CHECK(llama.layer_bytes.at(0) == weights / 32 * 18 + 2 * 128 * sizeof(std::uint16_t));
  CHECK(described(family("gptq_qwen2")).file_type == "GPTQ 4-bit, group 32");
  CHECK(described(family("gptq_rows")).file_type == "GPTQ 4-bit, a group a row");
}

TEST_CASE("quantised modules are rejected by their published names") {
  const std::string q = "model.layers.0.self_attn.q_proj.";
  const auto renamed = [&](const std::string& from, const std::string& to) {
    return changed("gptq_llama")
        .header([&](json& h) { rename(h, from.c_str(), to.c_str()); })
        .refusal();
  };
  CHECK(mentions(renamed(q + "qzeros", "x.qzeros"), q + "qweight' lacks its qzeros"));
  CHECK(mentions(renamed(q + "scales", "x.scales"), q + "qweight' lacks its scales"));
  CHECK(mentions(renamed(q + "qweight", "x.qweight"), "q_proj.g_idx' lacks its qweight"));
  CHECK(renamed(q + "g_idx", "lm_head.rotary_emb.inv_freq") == ""); // groups of consecutive inputs
  CHECK(mentions(renamed("model.embed_tokens.weight", q + "weight"), "duplicates"));
  CHECK(mentions(renamed(q + "bias", "model.layers.0.x.bias"), "'model.layers.0.x.bias'"));
  // The head of gptq_rows is quantised; config.json does not tie it to the embedding.
  changed headless("gptq_rows");
  headless.header([](json& h) {
    for (const auto* part : {"qweight", "qzeros", "scales", "g_idx"})
      rename(h, (std::string("lm_head.") + part).c_str(), (std::string("x.") + part).c_str());
  });
  CHECK(mentions(headless.refusal(), "'lm_head.weight' is missing"));
}

TEST_CASE("a zero bias beside a quantised matrix is ignored, another is not") {
  changed copy("gptq_llama");
  CHECK(copy.refusal() == "");
  copy.byte_of("model.layers.0.mlp.up_proj.bias");
  CHECK(mentions(copy.refusal(), "'model.layers.0.mlp.up_proj.bias'"));
}

TEST_CASE("a quantised directory of several files is read through its index") {
  const auto cut = [](const std::string& part_in_index) {
    changed copy("gptq_rows");
    json index;
    const auto bytes = read_file(copy.path() / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    const auto header = json::parse(bytes.substr(sizeof(length), length));
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__")
        index["weight_map"][name] = "all.safetensors";
    index["weight_map"]["lm_head.qweight"] = part_in_index;
    std::filesystem::rename(copy.path() / "model.safetensors", copy.path() / "all.safetensors");
    std::filesystem::copy(family("qwen3") / "model.safetensors",
                          copy.path() / "other.safetensors"); // opened only if it is named
    write_file(copy.path() / "model.safetensors.index.json", index.dump());
    return copy.refusal();
  };
  CHECK(cut("all.safetensors") == "");
  CHECK(cut("other.safetensors") != "");
}

TEST_CASE("the encoding of the zero points is part of the fingerprint") {
  const auto print = [](const char* form) {
    changed copy("gptq_llama");
    copy.config([&](json& c) { c["quantization_config"]["checkpoint_format"] = form; });
    const auto file = checkpoint::open(copy.path());
    REQUIRE_MESSAGE(file, file.error().message);
    return file->fingerprint();
  };
  CHECK(print("gptq") != print("gptq_v2"));
}
