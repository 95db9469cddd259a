// The families of tests/data/model/families: tiny models with the answers of transformers
// (tests/data/model/make_family_goldens.py). The reference for every engine's logits.
#pragma once

#include "runtime/model/description.hpp"
#include "runtime/model/open/open_model.hpp"
#include "schema/ids.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton::testing {

inline const std::vector<std::string> family_names = {
    "qwen2",      "qwen3",    "llama3",   "mistral",    "phi3",       "smollm3",
    "gemma2",     "gemma3",   "mixtral",  "qwen3moe",   "qwen3_yarn", "phi4mini",
    "ministral3", "olmo2",    "olmo3",    "granite",    "granitemoe", "granite4",
    "cohere2",    "ernie4_5", "seed_oss", "exaone4",    "hunyuan",    "glm4",
    "qwen2moe",   "glm4moe",  "gpt_oss",  "minimax_m2", "qwen3vl"};

// With recurrent layers, which the CPU engine alone runs.
inline const std::vector<std::string> recurrent_family_names = {
    "qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "granitehybrid"};
// With layers of several sizes, which the CPU engine alone runs.
inline const std::vector<std::string> uneven_family_names = {"gemma4", "gemma4moe", "gemma4e"};
// With latent attention, which the CPU engine alone runs.
inline const std::vector<std::string> latent_family_names = {
    "deepseek_v2_lite", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4"};
// With biases of the choice beside a softmax, which the CPU engine alone runs.
inline const std::vector<std::string> softmax_choice_family_names = {"ernie4_5_moe"};
inline std::vector<std::string> all_family_names() {
  auto all = family_names;
  for (const auto* more : {&recurrent_family_names, &uneven_family_names, &latent_family_names,
                           &softmax_choice_family_names})
    all.insert(all.end(), more->begin(), more->end());
  return all;
}

// A GGUF file, and mostly a directory as transformers saves it.
inline std::vector<std::string> forms_of(const std::string& name) {
  const auto directory = source_directory() / "tests/data/model/families" / name;
  return std::filesystem::is_directory(directory) ? std::vector<std::string>{".gguf", ""}
                                                  : std::vector<std::string>{".gguf"};
}

// Between logits and golden logits, in units of the deviation of the golden ones: the root mean
// square, and the maximum of a single logit.
struct difference {
  double mean = 0, worst = 0;
};

struct family_golden {
  std::unique_ptr<model::model_file> file;
  model::description description;
  std::vector<token_id> prompt, greedy;
  std::vector<std::uint32_t> positions;
  std::vector<std::vector<float>> logits; // at these positions

  // As committed, in one of the file formats, or with its matrices in another type.
  explicit family_golden(const std::string& name, std::optional<model::tensor_type> type = {},
                         const std::string& form = ".gguf") {
    const auto stem = source_directory() / "tests/data/model/families" / name;
    open(stem.string() + form);
    if (type) {
      const scratch_directory scratch;
      REQUIRE(copy_as(*type).write(scratch / "copy.gguf"));
      open(scratch / "copy.gguf");
    }
    std::ifstream in(stem.string() + ".json");
    const auto golden = nlohmann::json::parse(in);
    golden.at("prompt_ids").get_to(prompt);
    golden.at("greedy_ids").get_to(greedy);
    golden.at("positions").get_to(positions);
    golden.at("logits").get_to(logits);
  }

  void open(const std::filesystem::path& path) {
    auto opened = model::open_model(path);
    REQUIRE_MESSAGE(opened, opened.error().message);
    file = *std::move(opened);
    auto described = model::describe(*file);
    REQUIRE_MESSAGE(described, described.error().message);
    description = *std::move(described);
  }

  gguf_writer copy_as(model::tensor_type type) const {
    gguf_writer out;
    for (const auto& key : file->keys()) {
      if (file->array_size(key)) {
        const auto list = file->get_u32s(key).value();
        out.set_i32s(key, std::vector<std::int32_t>(list.begin(), list.end()));
      } else if (const auto text = file->get_string(key))
        out.set_string(key, *text);
      else if (const auto number = file->get_u32(key))
        out.set_u32(key, *number);
      else if (const auto flag = file->get_bool(key))
        out.set_bool(key, *flag);
      else
        out.set_f32(key, file->get_f32(key).value());
    }
    for (const auto& tensor : file->tensors()) {
      const auto values = values_of(tensor.name);
      const bool keeps_type = tensor.shape.size() == 1 || tensor.shape.front() % 32 != 0;
      out.add_tensor(tensor.name, keeps_type ? tensor.type : type, tensor.shape, values);
    }
    return out;
  }

  // Requires: latent attention. As older converters wrote it: sizes of all heads' keys and values,
  // and the rows of each head's keys and values in one tensor.
  gguf_writer with_joint_weights(model::tensor_type type = model::tensor_type::f16) const {
    auto out = copy_as(type);
    const auto& l = *description.latent;
    const auto key = [&](const char* name) { return description.architecture + name; };
    out.erase(key(".attention.key_length_mla")).erase(key(".attention.value_length_mla"));
    out.set_u32(key(".attention.key_length"), l.query_size());
    out.set_u32(key(".attention.value_length"), l.value_size);
    out.set_u32(key(".attention.head_count_kv"), description.head_count);
    for (std::uint32_t layer = 0; layer < description.layer_count; ++layer) {
      const auto keys = values_of(model::layer_tensor_name(layer, "attn_k_b.weight"));
      const auto values = values_of(model::layer_tensor_name(layer, "attn_v_b.weight"));
      std::vector<float> joint;
      for (std::size_t head = 0; head < description.head_count; ++head) {
        for (std::size_t row = 0; row < l.plain_size; ++row)
          for (std::size_t i = 0; i < l.kv_rank; ++i)
            joint.push_back(keys[(head * l.kv_rank + i) * l.plain_size + row]);
        const std::size_t size = std::size_t{l.value_size} * l.kv_rank;
        const auto own = std::span(values).subspan(head * size, size);
        joint.insert(joint.end(), own.begin(), own.end());
      }
      out.erase_tensor(model::layer_tensor_name(layer, "attn_k_b.weight"))
          .erase_tensor(model::layer_tensor_name(layer, "attn_v_b.weight"))
          .add_tensor(model::layer_tensor_name(layer, "attn_kv_b.weight"), type,
                      {l.kv_rank, joint.size() / l.kv_rank}, joint);
    }
    return out;
  }

  std::vector<float> values_of(const std::string& name) const {
    const auto tensor = file->find(name);
    REQUIRE(tensor);
    std::vector<std::byte> raw(tensor->size_bytes());
    REQUIRE(file->copy_rows(name, 0, tensor->rows(), raw));
    std::vector<float> values(tensor->elements());
    model::dequantize_row(tensor->type, raw.data(), values.data(), values.size());
    return values;
  }

  difference compare(const std::map<std::uint32_t, std::vector<float>>& found) const {
    double squares = 0, errors = 0, worst = 0;
    for (std::size_t row = 0; row < positions.size(); ++row)
      for (std::size_t i = 0; i < logits[row].size(); ++i) {
        const double expected = double{logits[row][i]};
        const double error = double{found.at(positions[row])[i]} - expected;
        squares += expected * expected;
        errors += error * error; // keeps NaN
        worst = std::max(worst, std::abs(error));
      }
    const double count = static_cast<double>(positions.size() * logits[0].size());
    return {std::sqrt(errors / squares), worst / std::sqrt(squares / count)};
  }
};

} // namespace baton::testing
