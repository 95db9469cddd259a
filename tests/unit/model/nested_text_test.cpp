// Goal: directories of larger models, with parts that see images, give their text model. Method:
// families' directories whose config.json and names are nested.
#include "tests/unit/model/changed_directory.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::testing;
using model::json;

TEST_CASE("the text model within a larger one is read alone") {
  for (const auto& [name, cls] : {std::pair("qwen35", "Qwen3_5ForConditionalGeneration"),
                                  std::pair("qwen35moe", "Qwen3_5MoeForConditionalGeneration"),
                                  std::pair("gemma4", "Gemma4ForConditionalGeneration"),
                                  std::pair("gemma4e", "Gemma4ForConditionalGeneration"),
                                  std::pair("qwen3", "Qwen3VLForConditionalGeneration")}) {
    CAPTURE(name);
    changed copy(name);
    copy.config([cls = cls, is_tied = described(family(name)).has_tied_embeddings](json& c) {
      auto text = c;
      text.erase("architectures");
      text.erase("tie_word_embeddings");
      c = {{"architectures", {cls}},
           {"text_config", text},
           {"vision_config", json::object()},
           {"tie_word_embeddings", is_tied}};
    });
    copy.header([](json& tensors) {
      json renamed;
      for (const auto& [tensor, info] : tensors.items())
        renamed[tensor.starts_with("model.") ? "model.language_model." + tensor.substr(6)
                                             : tensor] = info;
      tensors = renamed;
    });
    CHECK(copy.refusal() == "");
    const auto nested = described(copy.path()), alone = described(family(name));
    CHECK((nested.architecture == alone.architecture || nested.architecture == "qwen3vl"));
    CHECK(nested.layers == alone.layers);
    CHECK(nested.parameter_count == alone.parameter_count);
    CHECK(nested.layer_bytes == alone.layer_bytes);
    CHECK(nested.has_normalised_experts == alone.has_normalised_experts);
  }
}

TEST_CASE("parts of a larger model beside its text are left out, and nothing else is") {
  const auto with = [](const std::string& tensor) {
    changed copy("qwen35");
    copy.header([&](json& tensors) { rename(tensors, "lm_head.weight", tensor.c_str()); });
    copy.config([](json& c) { c["tie_word_embeddings"] = true; });
    return copy.refusal();
  };
  CHECK(with("mtp.fc.weight") == "");
  CHECK(mentions(with("model.visual.patch_embed.weight"), "model.visual.patch_embed.weight"));
}
