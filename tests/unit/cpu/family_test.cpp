// Goal: every family of the table is the model that its authors publish, and keeps the contract of
// the engine interface. Method: tiny files with the answers of transformers
// (tests/data/model/make_family_goldens.py), cut into steps, stages and threads in many ways.
// Descriptions with one changed feature must give other logits.
#include "runtime/model/gguf/gguf.hpp"
#include "tests/support/family_golden.hpp"
#include "tests/unit/cpu/isas.hpp"
#include "tests/unit/cpu/sequences.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace baton;
using namespace baton::testing;

namespace {

// Root mean square between our logits and the golden ones, in units of the golden ones' standard
// deviation. Both sides are float32 over float16 keys and values, and differ in the order of their
// sums: 1e-6 an operation. Measured: 1e-6 to 6e-5. The larger ones are probably (not proven) units
// of float16 (5e-4): a key or value lies so near to a rounding border that the sums decide.
constexpr double bound = 2e-4;
// Per logit: the effect of such a unit on a row that attends to few positions.
constexpr double bound_worst = 2e-3;

// The file as the native engine loads it.
struct family_file : family_golden {
  using family_golden::family_golden;

  std::unique_ptr<cpu::engine_cpu> load(const cpu::config& settings) const {
    return load(settings, description, model::whole(description));
  }
  std::unique_ptr<cpu::engine_cpu> load(const cpu::config& settings,
                                        const model::description& model,
                                        const model::layer_range& range) const {
    auto engine = cpu::engine_cpu::load(*file, model, range, settings);
    REQUIRE_MESSAGE(engine, engine.error().message);
    return *std::move(engine);
  }
};

cpu::config family_settings(std::uint32_t bits = 16) {
  cpu::config c;
  c.kv_blocks = 16;
  c.rows_max = 256;
  c.activation_bits = bits;
  c.state_slots = slots_of_tests;
  return c;
}

} // namespace

void check_against_transformers(const std::string& name, const std::string& form,
                                const difference& limit = {bound, bound_worst}) {
  const family_file golden(name, {}, form);
  for (const auto which : available_isas()) {
    auto settings = family_settings();
    settings.forced_isa = which;
    const auto found = golden.compare(run_in_steps(*golden.load(settings), golden.prompt, {1}));
    if (which == cpu::isa::portable)
      MESSAGE(name, form, ": ", found.mean, ", worst ", found.worst);
    CHECK(found.mean < limit.mean);
    CHECK(found.worst < limit.worst);
  }
}

TEST_CASE("a family's logits match transformers") {
  for (const auto& name : all_family_names())
    for (const auto& form : forms_of(name)) {
      CAPTURE(name);
      CAPTURE(form);
      check_against_transformers(name, form);
    }
}

// The weights of the other families differ in bits: permuted rows, or norms plus 1.
TEST_CASE("a directory gives the bits of the GGUF file") {
  for (const auto* name :
       {"qwen2", "qwen3", "phi3", "qwen3moe", "olmo2", "cohere2", "ernie4_5", "seed_oss", "exaone4",
        "glm4", "qwen2moe", "glm4moe", "gpt_oss", "minimax_m2", "mistral4"}) {
    const family_file file(name), directory(name, {}, "");
    CAPTURE(name);
    check_same(run_in_steps(*file.load(family_settings()), file.prompt, {33}),
               run_in_steps(*directory.load(family_settings()), file.prompt, {33}));
  }
}

TEST_CASE("a directory's stages give the bits of the whole model") {
  const family_file golden("llama3", {}, "");
  const auto expected = run_in_steps(*golden.load(family_settings()), golden.prompt, {150});
  const auto first = golden.load(family_settings(), golden.description, {0, 1, true, false});
  const auto second = golden.load(family_settings(), golden.description, {1, 1, false, true});
  const auto batch = batch_of({{1, golden.prompt, 0}});
  const auto middle = first->run(batch, {});
  REQUIRE_MESSAGE(middle, middle.error().message);
  REQUIRE(second->run(batch, middle->activations));
  logits_by_position found;
  keep(found, 149, second->logits(0));
  check_same(expected, found);
}

TEST_CASE("joint weights of latent attention give the bits of those of keys and of values") {
  const scratch_directory scratch;
  for (const auto& name : latent_family_names) {
    CAPTURE(name);
    REQUIRE(family_golden(name).with_joint_weights().write(scratch / "joint.gguf"));
    REQUIRE(family_golden(name)
                .with_joint_weights(model::tensor_type::q8_0)
                .write(scratch / "q8.gguf"));
    family_file golden(name, model::tensor_type::f16);
    const auto expected = run_in_steps(*golden.load(family_settings()), golden.prompt, {33});
    golden.open(scratch / "joint.gguf");
    check_same(expected, run_in_steps(*golden.load(family_settings()), golden.prompt, {33}));
    golden.open(scratch / "q8.gguf");
    const auto quantised =
        golden.compare(run_in_steps(*golden.load(family_settings()), golden.prompt, {1}));
    CHECK(quantised.mean < 0.1);
  }
}

std::vector<token_id> greedy_of(const family_file& golden) {
  const auto engine = golden.load(family_settings());
  std::vector<token_id> next = golden.prompt, found;
  for (std::uint32_t position = 0; found.size() < golden.greedy.size();) {
    const auto out = engine->run(with_states(batch_of({{1, next, position}}), *engine), {});
    REQUIRE_MESSAGE(out, out.error().message);
    position += static_cast<std::uint32_t>(next.size());
    next = {out->samples.at(0).token};
    found.push_back(next[0]);
  }
  return found;
}

// tests/data/model/make_gptq_goldens.py. Matrices of blocks take 16-bit activations: measured 1e-4
// to 3e-4, where the same weights written as F32 give 3e-7 to 6e-5.
const difference gptq_limit = {.mean = 1e-3, .worst = 5e-3};
const std::vector<std::string> gptq_names = {"gptq_llama", "gptq_qwen2", "gptq_rows",
                                             "gptq_qwen3moe"};

TEST_CASE("a directory quantised by GPTQ answers as transformers does with its weights") {
  for (const auto& name : gptq_names) {
    CAPTURE(name);
    check_against_transformers(name, "", gptq_limit);
    const family_file golden(name, {}, "");
    CHECK(greedy_of(golden) == golden.greedy);
    check_same(
        run_in_steps(*golden.load(family_settings()), golden.prompt, {1}),
        run_in_steps(*golden.load(family_settings()), golden.prompt, {golden.prompt.size()}));
  }
}

// tests/data/model/make_quantised_goldens.py. Products of bf16 round activations to it: measured
// 2e-3 to 4e-3, and 2e-2 for a logit. The same weights as F32 keep the bounds of families.
const difference brain_limit = {.mean = 1e-2, .worst = 5e-2};
const std::vector<std::string> brain_names = {"fp8_qwen3",   "fp8_qwen3moe", "fp8_qwen2",
                                              "fp8_llama",   "ct_fp8",       "ct_pack_order",
                                              "ct_int8_f32", "ct_nvfp4",     "nvfp4_modelopt"};
const std::vector<std::string> block_names = {"awq_qwen2",     "ct_pack", "ct_pack_zeros",
                                              "ct_pack8",      "ct_int8", "gptq_bytes",
                                              "gpt_oss_mxfp4", "ct_mxfp4"};

// The weights of a directory, written as F32.
void check_as_f32(const std::string& name) {
  const scratch_directory scratch;
  family_file golden(name, {}, "");
  const auto own = golden.description;
  REQUIRE(golden.copy_as(model::tensor_type::f32).write(scratch / "copy.gguf"));
  golden.open(scratch / "copy.gguf");
  const auto engine = golden.load(family_settings(), own, model::whole(own));
  const auto found = golden.compare(run_in_steps(*engine, golden.prompt, {1}));
  MESSAGE(name, " as F32: ", found.mean, ", worst ", found.worst);
  CHECK(found.mean < bound);
  CHECK(found.worst < bound_worst);
}

TEST_CASE("a directory in a published format answers as transformers does with its weights") {
  const auto check = [](const std::string& name, const difference& limit) {
    CAPTURE(name);
    check_as_f32(name);
    check_against_transformers(name, "", limit);
    const family_file golden(name, {}, "");
    CHECK(greedy_of(golden) == golden.greedy);
    check_same(
        run_in_steps(*golden.load(family_settings()), golden.prompt, {1}),
        run_in_steps(*golden.load(family_settings()), golden.prompt, {golden.prompt.size()}));
  };
  for (const auto& name : brain_names)
    check(name, brain_limit);
  for (const auto& name : block_names)
    check(name, gptq_limit);
  check("gptq_order", {bound, bound_worst}); // F16
}

TEST_CASE("a family decodes greedily as transformers does") {
  for (const auto& name : all_family_names())
    for (const auto& form : forms_of(name)) {
      CAPTURE(name);
      CAPTURE(form);
      const family_file golden(name, {}, form);
      CHECK(greedy_of(golden) == golden.greedy);
    }
}

// The parts of a fused matrix begin anywhere in a file's rows, and 8-bit weights differ from those
// of the oracle. So the check is only approximate.
TEST_CASE("a quantised family stays close to transformers") {
  for (const auto& name : all_family_names()) {
    const family_file golden(name, model::tensor_type::q8_0);
    const auto found =
        golden.compare(run_in_steps(*golden.load(family_settings()), golden.prompt, {1}));
    CAPTURE(name);
    MESSAGE(name, " in Q8_0: ", found.mean);
    CHECK(found.mean > bound);
    // Another choice of experts in a recurrent layer changes all later rows.
    const bool is_sensitive = golden.description.recurrence && golden.description.expert_count > 0;
    CHECK(found.mean < (is_sensitive ? 0.2 : 0.1));
  }
}

TEST_CASE("a family's logits have the same bits however they are computed") {
  using enum model::tensor_type;
  for (const auto& name : all_family_names()) {
    CAPTURE(name);
    for (const auto& [type, bits] : {std::pair{f16, 16U}, {q8_0, 16U}, {q4_1, 8U}}) {
      const family_file golden(name, type);
      CAPTURE(model::tensor_type_traits(type).name);
      const auto engine = golden.load(family_settings(bits));
      const auto one_by_one = run_in_steps(*engine, golden.prompt, {1});
      for (const auto& sizes : std::vector<std::vector<std::size_t>>{
               {golden.prompt.size()}, {7, 64, 30, 49}, {63, 2}, {13}})
        check_same(one_by_one, run_in_steps(*engine, golden.prompt, sizes));
      for (const auto which : available_isas())
        for (const std::uint32_t threads : {1U, 3U}) {
          auto settings = family_settings(bits);
          settings.threads = threads;
          settings.forced_isa = which;
          CAPTURE(cpu::name_of(which));
          check_same(one_by_one, run_in_steps(*golden.load(settings), golden.prompt, {17}));
        }
    }
  }
}

TEST_CASE("a row's logits do not depend on the rows beside it") {
  for (const auto& name : all_family_names()) {
    const family_file golden(name);
    CAPTURE(name);
    auto settings = family_settings();
    settings.threads = 2;
    const auto engine = golden.load(settings);
    const auto& own = golden.prompt;
    const std::vector<token_id> other(own.rbegin(), own.rend());
    const auto alone = run_in_steps(*engine, own, {1});
    logits_by_position mixed;
    const auto step = [&](const std::vector<part>& parts, std::size_t draw,
                          std::uint32_t position) {
      run_and_keep(*engine, parts, draw, mixed, position);
    };
    step({{2, piece(other, 0, 70), 0, false, 4}, {1, piece(own, 0, 100), 0, true, 8}}, 0, 99);
    step({{1, piece(own, 100, 101), 100, true, 8}, {2, piece(other, 70, 71), 70, true, 4}}, 0, 100);
    step({{2, piece(other, 71, 150), 71, true, 4}, {1, piece(own, 101, 150), 101, true, 8}}, 1,
         149);
    check_same(alone, mixed);
  }
}

TEST_CASE("a family's stages give the bits of the whole model, wherever they are cut") {
  for (const auto& name : all_family_names()) {
    const family_file golden(name);
    CAPTURE(name);
    if (!golden.description.uncut_feature().empty()) {
      const auto half = cpu::engine_cpu::load(*golden.file, golden.description, {0, 1, true, false},
                                              family_settings());
      REQUIRE_FALSE(half);
      CHECK(half.error().code == errc::does_not_fit);
      continue;
    }
    const auto expected = run_in_steps(*golden.load(family_settings()), golden.prompt, {33});
    const std::uint32_t layers = golden.description.layer_count;
    for (std::uint32_t cut = 1; cut < layers; ++cut) {
      CAPTURE(cut);
      const auto first = golden.load(family_settings(), golden.description, {0, cut, true, false});
      const auto second =
          golden.load(family_settings(), golden.description, {cut, layers - cut, false, true});
      logits_by_position found;
      for (std::size_t at = 0; at < golden.prompt.size(); at += 33) {
        const auto end = std::min(at + 33, golden.prompt.size());
        const auto batch = with_states(
            batch_of({{1, piece(golden.prompt, at, end), static_cast<std::uint32_t>(at)}}), *first);
        const auto middle = first->run(batch, {});
        REQUIRE_MESSAGE(middle, middle.error().message);
        REQUIRE(second->run(batch, middle->activations));
        keep(found, static_cast<std::uint32_t>(end - 1), second->logits(0));
      }
      check_same(expected, found);
    }
  }
}

TEST_CASE("invalid rope factors are rejected when the engine loads") {
  const scratch_directory scratch;
  family_file llama("llama3");
  for (const float bad : {0.0F, -1.0F, NAN, INFINITY}) {
    auto copy = llama.copy_as(model::tensor_type::f16);
    std::vector<float> factors(8, 1.0F);
    factors[5] = bad;
    copy.erase_tensor("rope_freqs.weight")
        .add_tensor("rope_freqs.weight", model::tensor_type::f32, {8}, factors);
    REQUIRE(copy.write(scratch / "bad.gguf"));
    const auto file = model::gguf_file::open(scratch / "bad.gguf");
    REQUIRE(file);
    const auto engine = cpu::engine_cpu::load(*file, llama.description,
                                              model::whole(llama.description), family_settings());
    REQUIRE(!engine);
    CHECK(engine.error().code == errc::bad_model_file);
    CHECK(engine.error().message.find("'rope_freqs.weight'") != std::string::npos);
  }
}

TEST_CASE("the served length chooses longrope's factors") {
  const family_file golden("phi4mini");
  auto settings = family_settings();
  const auto logits = [&](std::uint32_t length) {
    settings.max_model_len = length;
    return run_in_steps(*golden.load(settings), piece(golden.prompt, 0, 60), {30});
  };
  const auto longer = logits(65), shorter = logits(64);
  CHECK(longer.at(59) != shorter.at(59));
  check_same(longer, logits(512));
  check_same(shorter, logits(60));
}

// Without this test a golden would also pass if the feature were ignored.
TEST_CASE("every feature of a family changes its logits") {
  using model::description;
  struct change {
    std::string family, what;
    std::function<void(description&)> apply;
  };
  const auto other_rope = [](description& d) {
    for (auto& rope : d.ropes)
      rope.kind =
          rope.kind == model::rope_kind::normal ? model::rope_kind::neox : model::rope_kind::normal;
  };
  const auto unscaled = [](description& d) { d.ropes[0].scaling = model::rope_scaling_kind::none; };
  const auto without_qk_norm = [](description& d) { d.qk_norm = model::qk_norm_kind::none; };
  const auto normed_heads = [](description& d) { d.qk_norm = model::qk_norm_kind::heads; };
  std::vector<change> changes = {
      {"qwen2", "biases", [](auto& d) { d.has_attention_bias = false; }},
      {"qwen3", "norms of heads", without_qk_norm},
      {"llama3", "factors", [](auto& d) { d.ropes[0].has_factors = false; }},
      {"mistral", "scaling", unscaled},
      {"phi3", "part of a head", [](auto& d) { d.ropes[0].dimension_count = d.head_size; }},
      {"smollm3", "NoPE", [](auto& d) { d.layers[3].rope = 0; }},
      {"smollm3", "another layer", [](auto& d) { d.layers[2].rope.reset(); }},
      {"qwen3_yarn", "scaling", unscaled},
      {"qwen3_yarn", "magnitude", [](auto& d) { d.ropes[0].magnitude = 1; }},
      {"qwen3_yarn", "the ramp's begin", [](auto& d) { d.ropes[0].fast_turns = 2; }},
      {"qwen3_yarn", "the ramp's end", [](auto& d) { d.ropes[0].slow_turns = 3; }},
      {"phi4mini", "magnitude", [](auto& d) { d.ropes[0].magnitude = 1; }},
      {"phi4mini", "long factors", [](auto& d) { d.ropes[0].original_context_size = 512; }},
      {"ministral3", "growth", [](auto& d) { d.query_growth.weight = 0; }},
      {"ministral3", "its length", [](auto& d) { d.query_growth.length = 80; }},
      {"olmo2", "norms of rows", without_qk_norm},
      {"olmo2", "norms behind attention", [](auto& d) { d.has_post_norms = false; }},
      {"olmo3", "yarn in windows", [](auto& d) { d.layers[0].rope = 0; }},
      {"olmo3", "no yarn elsewhere", [](auto& d) { d.layers[3].rope = 1; }},
      {"granite", "embeddings", [](auto& d) { d.embedding_scale = 1; }},
      {"granite", "residuals", [](auto& d) { d.residual_scale = 1; }},
      {"granite", "attention", [](auto& d) { d.attention_scale = 0.25F; }},
      {"granite", "logits", [](auto& d) { d.logit_scale = 1; }},
      {"granitemoe", "shared experts", [](auto& d) { d.shared_ffn_size = 0; }},
      {"granitemoe", "residuals", [](auto& d) { d.residual_scale = 1; }},
      {"cohere2", "means", [](auto& d) { d.norm = model::norm_kind::rms; }},
      {"cohere2", "logits", [](auto& d) { d.logit_scale = 1; }},
      {"cohere2", "NoPE", [](auto& d) { d.layers[3].rope = 0; }},
      {"exaone4", "NoPE", [](auto& d) { d.layers[3].rope = 0; }},
      {"exaone4", "norms of heads", without_qk_norm},
      {"seed_oss", "biases", [](auto& d) { d.has_attention_bias = false; }},
      {"hunyuan", "norms before the rotation", normed_heads},
      {"hunyuan", "norms", without_qk_norm},
      {"glm4", "post norms", [](auto& d) { d.has_post_norms = false; }},
      {"glm4", "part of a head", [](auto& d) { d.ropes[0].dimension_count = 16; }},
      {"qwen2moe", "shared experts", [](auto& d) { d.shared_ffn_size = 0; }},
      {"qwen2moe", "their gate", [](auto& d) { d.has_shared_gate = false; }},
      {"glm4moe", "shared experts", [](auto& d) { d.shared_ffn_size = 0; }},
      {"glm4moe", "the choice's bias", [](auto& d) { d.has_choice_bias = false; }},
      {"glm4moe", "the scale", [](auto& d) { d.expert_scale = 1; }},
      {"glm4moe", "the sum of weights", [](auto& d) { d.has_normalised_experts = false; }},
      {"glm4moe", "norms of heads", without_qk_norm},
      {"gpt_oss", "sinks", [](auto& d) { d.has_sinks = false; }},
      {"gpt_oss", "biases of experts", [](auto& d) { d.has_expert_bias = false; }},
      {"gpt_oss", "the router's bias", [](auto& d) { d.has_router_bias = false; }},
      {"gpt_oss", "biases of the output", [](auto& d) { d.has_attention_out_bias = false; }},
      {"gpt_oss", "activation", [](auto& d) { d.activation = model::activation_kind::silu; }},
      {"gpt_oss", "whole borders", [](auto& d) { d.ropes[0].has_whole_borders = true; }},
      {"qwen35", "attention's gate", [](auto& d) { d.has_attention_gate = false; }},
      {"qwen35", "the order of heads", [](auto& d) { d.recurrence->alternates_key_heads = false; }},
      {"qwen35", "decays", [](auto& d) { d.recurrence->has_log_decay = true; }},
      {"granitehybrid", "decays", [](auto& d) { d.recurrence->has_log_decay = true; }},
      {"granitehybrid", "the norm's groups", [](auto& d) { d.recurrence->norm_size *= 2; }},
      {"qwen3next", "the order of heads",
       [](auto& d) { d.recurrence->alternates_key_heads = true; }},
      {"gemma2", "attention's cap", [](auto& d) { d.attention_soft_cap.reset(); }},
      {"gemma2", "the final cap", [](auto& d) { d.final_soft_cap.reset(); }},
      {"gemma3", "norms of heads", without_qk_norm},
      {"gemma3", "the other rope", [](auto& d) { d.layers[2].rope = 0; }},
      {"gemma3", "scaling", unscaled},
      {"gemma4", "norms of values", [](auto& d) { d.has_value_norm = false; }},
      {"gemma4", "scales of layers", [](auto& d) { d.has_layer_scales = false; }},
      {"gemma4", "the part of a head", [](auto& d) { d.ropes[0].has_factors = false; }},
      {"gemma4", "the final cap", [](auto& d) { d.final_soft_cap.reset(); }},
      {"gemma4", "the scale of queries", [](auto& d) { d.attention_scale = 0.5F; }},
      {"gemma4moe", "an expert less", [](auto& d) { d.expert_used_count = 1; }},
      {"gemma4moe", "the sum of weights", [](auto& d) { d.has_normalised_experts = false; }},
      {"ernie4_5_moe", "the choice's bias", [](auto& d) { d.has_choice_bias = false; }},
      {"ernie4_5_moe", "the sum of weights", [](auto& d) { d.has_normalised_experts = false; }},
      {"ernie4_5_moe", "shared experts", [](auto& d) { d.shared_ffn_size = 0; }},
      {"mistral4", "growth", [](auto& d) { d.query_growth.weight = 0; }},
      {"minimax_m2", "norms of rows", without_qk_norm},
      {"minimax_m2", "the choice's bias", [](auto& d) { d.has_choice_bias = false; }},
      {"minimax_m2", "part of a head", [](auto& d) { d.ropes[0].dimension_count = 16; }},
      {"deepseek_v2_lite", "the scale of products", [](auto& d) { d.attention_scale *= 0.83F; }},
      {"deepseek_v2_lite", "scaling", unscaled},
      {"deepseek_v2_lite", "the scale of experts", [](auto& d) { d.expert_scale = 1; }},
      {"deepseek_v2", "groups", [](auto& d) { d.expert_group_count = 1; }},
      {"deepseek_v2", "the number of groups", [](auto& d) { d.expert_group_used_count = 2; }},
      {"deepseek_v3", "groups", [](auto& d) { d.expert_group_count = 1; }},
      {"deepseek_v3", "the number of groups", [](auto& d) { d.expert_group_used_count = 1; }},
      {"deepseek_v3", "the choice's bias",
       [](auto& d) {
         d.has_choice_bias = false;
         d.expert_group_count = 1;
       }},
      {"glm4_moe_lite", "the choice's bias", [](auto& d) { d.has_choice_bias = false; }},
      {"glm4_moe_lite", "the sum of weights", [](auto& d) { d.has_normalised_experts = false; }},
      {"gemma4e", "embeddings of each layer", [](auto& d) { d.layer_input_size = 0; }},
      {"gemma4e", "the wide ffn", [](auto& d) { d.layers[3].ffn_size = 0; }},
  };
  for (const auto* name : {"mistral", "phi3", "gemma2", "gemma3", "olmo3", "cohere2", "exaone4",
                           "gpt_oss", "gemma4"}) {
    changes.push_back({name, "a window", [](auto& d) { d.layers[0].window = 0; }});
    changes.push_back({name, "a window less one", [](auto& d) { d.layers[0].window = 39; }});
    changes.push_back({name, "a window and one", [](auto& d) { d.layers[0].window = 41; }});
  }
  for (const auto* name : {"mixtral", "qwen3moe"}) {
    changes.push_back({name, "an expert less", [](auto& d) { d.expert_used_count = 1; }});
    changes.push_back({name, "the sum of weights",
                       [](auto& d) { d.has_normalised_experts = !d.has_normalised_experts; }});
  }
  for (const auto* name : {"gemma2", "gemma3"}) {
    changes.push_back({name, "all windows", [](auto& d) {
                         for (auto& layer : d.layers)
                           layer.window = 40;
                       }});
    changes.push_back({name, "post norms", [](auto& d) { d.has_post_norms = false; }});
    changes.push_back({name, "embedding scale", [](auto& d) { d.embedding_scale = 1; }});
    changes.push_back({name, "query scale", [](auto& d) { d.attention_scale *= 1.1F; }});
    changes.push_back({name, "gelu", [](auto& d) { d.activation = model::activation_kind::silu; }});
  }
  for (const auto& name : all_family_names())
    if (name != "granitehybrid") // rotates nothing
      changes.push_back({name, "pairs of the rotation", other_rope});
  for (const auto& change : changes) {
    const family_file golden(change.family);
    auto changed = golden.description;
    change.apply(changed);
    CAPTURE(change.family);
    CAPTURE(change.what);
    const auto engine = golden.load(family_settings(), changed, model::whole(changed));
    CHECK(golden.compare(run_in_steps(*engine, golden.prompt, {1})).mean > 10 * bound);
  }
}
