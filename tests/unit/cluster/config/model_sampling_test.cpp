// Sampling defaults in a model's own files: the fields read, and refusals by name.
#include "cluster/config/readers/model_sampling.hpp"
#include "runtime/model/open/open_model.hpp"
#include "tests/support/drawn_defaults.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace baton;
using testing::drawn;
using namespace baton::cluster;
namespace fs = std::filesystem;

namespace {

// A directory with this generation_config.json.
result<sampling_defaults> of_directory(const std::string& generation) {
  const testing::scratch_directory scratch;
  const auto path = scratch.path() / "model";
  fs::copy(fs::path(BATON_SOURCE_DIR) / "tests/data/model/families/qwen3", path,
           fs::copy_options::recursive);
  if (!generation.empty())
    std::ofstream(path / "generation_config.json") << generation;
  const auto file = model::open_model(path);
  REQUIRE(file);
  return sampling_of_file(**file);
}

result<sampling_defaults> of_gguf(const testing::gguf_writer& writer) {
  const testing::scratch_directory scratch;
  const auto path = scratch.path() / "m.gguf";
  REQUIRE(writer.write(path));
  const auto file = model::open_model(path);
  REQUIRE(file);
  return sampling_of_file(**file);
}

testing::gguf_writer any_gguf() {
  testing::gguf_writer writer;
  writer.set_string("general.architecture", "llama");
  return writer;
}

} // namespace

TEST_CASE("generation_config.json has the sampling defaults of a directory's model") {
  const auto qwen = of_directory(
      R"({"do_sample":true,"temperature":0.7,"top_k":20,"top_p":0.8,"repetition_penalty":1.05,)"
      R"("max_new_tokens":2048,"min_p":null,"eos_token_id":[1,2],"transformers_version":"4.57"})");
  REQUIRE(qwen);
  CHECK(*qwen == drawn(0.7F, 20, 0.8F, {}, 1.05F, 2048));
  CHECK(of_directory("").value() == sampling_defaults());
  CHECK(of_directory(R"({"eos_token_id":2})").value() == sampling_defaults());
  CHECK(of_directory(R"({"top_k":-1})").value().top_k == 0);
}

TEST_CASE("do_sample: false is greedy, and its other sampling fields are ignored") {
  const auto greedy = of_directory(
      R"({"do_sample":false,"temperature":0.6,"top_p":0.9,"top_k":40,"repetition_penalty":1.1})");
  REQUIRE(greedy);
  CHECK(*greedy == drawn(0.0F, {}, {}, {}, 1.1F));
}

TEST_CASE("an invalid default is refused by its name, with a remedy") {
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {R"({"temperature":-0.5})", "temperature"},
           {R"({"temperature":1e300})", "temperature"},
           {R"({"temperature":"warm"})", "temperature"},
           {R"({"top_p":0})", "top_p"},
           {R"({"top_k":2.5})", "top_k"},
           {R"({"repetition_penalty":0})", "repetition_penalty"},
           {R"({"max_new_tokens":0})", "max_new_tokens"}}) {
    CAPTURE(text);
    const auto refused = of_directory(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_model_file);
    CHECK(refused.error().param == name);
    CHECK(refused.error().message.find("generation_config.json") != std::string::npos);
  }
  CHECK_FALSE(of_directory("{"));
}

TEST_CASE("a GGUF file has them under the keys of llama.cpp's converter") {
  CHECK(of_gguf(any_gguf()).value() == sampling_defaults());
  const auto all = of_gguf(any_gguf()
                               .set_f32("general.sampling.temp", 0.6F)
                               .set_i32("general.sampling.top_k", 20)
                               .set_f32("general.sampling.top_p", 0.95F)
                               .set_f32("general.sampling.min_p", 0)
                               .set_f32("general.sampling.penalty_repeat", 1.05F));
  REQUIRE(all);
  CHECK(*all == drawn(0.6F, 20, 0.95F, 0.0F, 1.05F));
  CHECK(of_gguf(any_gguf().set_i32("general.sampling.top_k", -1)).value().top_k == 0);
  const auto refused = of_gguf(any_gguf().set_f32("general.sampling.top_p", 3));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().param == "general.sampling.top_p");
}

TEST_CASE("the plan's line gives the source of each value") {
  model_config model;
  CHECK(sampling_text(model).empty());
  model.sampling_of_files = drawn(0.6F, 20);
  CHECK(sampling_text(model) == "temperature 0.6, top_k 20 (the model's files)");
  model.sampling.temperature = 0.2F;
  model.sampling.max_tokens = 64;
  CHECK(sampling_text(model) ==
        "temperature 0.2, max_tokens 64 (nodes.toml); top_k 20 (the model's files)");
  CHECK(sampling_of(model) == drawn(0.2F, 20, {}, {}, {}, 64));
}
