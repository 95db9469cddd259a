// The table of short names.
#include "cluster/hub/known_models.hpp"
#include "cluster/hub/model_reference.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

using namespace baton;
using namespace baton::cluster;

TEST_CASE("a row has a name of a family and a size, and leads to one quantization") {
  std::set<std::string_view> names, families;
  std::string_view family;
  for (const auto& row : known_models()) {
    CAPTURE(std::string(row.name));
    CHECK(names.insert(row.name).second);
    CHECK(std::count(row.name.begin(), row.name.end(), ':') == 1);
    CHECK(std::none_of(row.name.begin(), row.name.end(),
                       [](char c) { return (c >= 'A' && c <= 'Z') || c == '/' || c == ' '; }));
    const auto reference = parse_reference(row.reference);
    REQUIRE(reference);
    CHECK(reference->from == model_reference::source::repository);
    CHECK_FALSE(reference->quant.empty());
    CHECK(text_of(*reference) == row.reference);
    if (row.name.substr(0, row.name.find(':')) != family) {
      family = row.name.substr(0, row.name.find(':'));
      CHECK(families.insert(family).second); // the rows of a family are together
    }
  }
}

TEST_CASE("a name without a size is the first of its family, in any case") {
  REQUIRE(find_known_model("smollm2"));
  CHECK(find_known_model("smollm2")->name == "smollm2:135m");
  CHECK(find_known_model("SmolLM2:360M")->name == "smollm2:360m");
  CHECK(find_known_model("llama3.2:latest")->name == "llama3.2:1b");
  CHECK(find_known_model("qwen2.5-coder")->name == "qwen2.5-coder:1.5b");
  for (const auto* other : {"", ":", "smollm2:", ":135m", "smollm2:9b", "smollm", "models/smollm2"})
    CHECK(find_known_model(other) == nullptr);
}

TEST_CASE("a near name is suggested") {
  CHECK(nearest_known_model("smolm2") == "smollm2");
  CHECK(nearest_known_model("qwen2.5:0.6b") == "qwen2.5:0.5b");
  CHECK(nearest_known_model("lama3.2:1b") == "llama3.2:1b");
  CHECK(nearest_known_model("gemma3:270m") == "gemma3:27b");
  CHECK_FALSE(nearest_known_model("completely-different"));
  CHECK_FALSE(nearest_known_model("models/smolm2"));
  CHECK_FALSE(nearest_known_model("smolm2.gguf"));
  CHECK_FALSE(nearest_known_model("a"));
}

TEST_CASE("a short name is a reference to what its row says") {
  const auto reference = parse_reference("Smollm2:360m");
  REQUIRE(reference);
  CHECK(reference->from == model_reference::source::repository);
  CHECK(reference->text == "Smollm2:360m");
  CHECK(text_of(*reference) == "hf:bartowski/SmolLM2-360M-Instruct-GGUF:Q4_K_M");
  CHECK(is_reference("smollm2"));
  CHECK_FALSE(is_explicit_reference("smollm2")); // a path of that name wins
  CHECK(parse_reference("smolm2")->from == model_reference::source::path);
}
