// The files of a repository that are the model.
#include "cluster/hub/file_choice.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::cluster;

namespace {

std::vector<hub_file> files_named(std::initializer_list<const char*> paths) {
  std::vector<hub_file> all;
  for (const auto* name : paths)
    all.push_back({name, 10, {}, {}});
  return all;
}

std::string chosen(std::initializer_list<const char*> paths, const std::string& quant = {}) {
  const auto choice = choose_files(files_named(paths), quant);
  REQUIRE_MESSAGE(choice, choice.error().message);
  return choice->gguf;
}

std::vector<std::string> paths_of(const file_choice& choice) {
  std::vector<std::string> all;
  for (const auto& f : choice.files)
    all.push_back(f.path);
  return all;
}

} // namespace

TEST_CASE("a quantization is the end of a file's name") {
  CHECK(quant_of_name("SmolLM2-135M-Instruct-Q4_K_M.gguf") == "Q4_K_M");
  CHECK(quant_of_name("sub/qwen2.5-0.5b-instruct-q8_0.gguf") == "Q8_0");
  CHECK(quant_of_name("a.F16.gguf") == "F16");
  CHECK(quant_of_name("a-bf16.gguf") == "BF16");
  CHECK(quant_of_name("a-UD-Q4_K_XL.gguf") == "UD-Q4_K_XL");
  CHECK(quant_of_name("a-IQ4_XS.gguf") == "IQ4_XS");
  CHECK(quant_of_name("Q4_K_M/a-Q4_K_M-00001-of-00002.gguf") == "Q4_K_M");
  CHECK(quant_of_name("model.gguf").empty());
}

TEST_CASE("Q4_K_M comes first, then the nearest that runs") {
  CHECK(chosen({"a-Q8_0.gguf", "a-Q4_K_M.gguf", "a-Q4_0.gguf"}) == "a-Q4_K_M.gguf");
  CHECK(chosen({"a-Q8_0.gguf", "a-F16.gguf", "a-Q5_K_M.gguf"}) == "a-Q5_K_M.gguf");
  CHECK(chosen({"a-F16.gguf", "a-Q8_0.gguf", "a-IQ4_XS.gguf", "a-Q3_K_M.gguf"}) == "a-IQ4_XS.gguf");
  CHECK(chosen({"a-Q3_K_M.gguf", "a-Q2_K.gguf", "a-F32.gguf"}) == "a-Q3_K_M.gguf");
  CHECK(chosen({"a-IQ1_S.gguf", "a-IQ2_XS.gguf"}) == "a-IQ2_XS.gguf");
  CHECK(chosen({"a.gguf", "README.md"}) == "a.gguf");
  CHECK(chosen({"sub/b-Q4_K_M.gguf", "a-Q4_K_M.gguf"}) == "a-Q4_K_M.gguf");
  CHECK(chosen({"a-f32.gguf", "a-bf16.gguf"}) == "a-bf16.gguf");
}

TEST_CASE("the choice is explained") {
  const auto choice = choose_files(files_named({"a-Q4_K_M.gguf", "a-Q8_0.gguf", "mmproj-F16.gguf",
                                                "b-Q8_0-00001-of-00002.gguf", "config.json"}),
                                   {});
  REQUIRE(choice);
  CHECK(choice->why == "a-Q4_K_M.gguf: of Q4_K_M, Q8_0 the nearest to Q4_K_M");
  REQUIRE(choice->notes.size() == 2);
  CHECK(choice->notes[0].find("b-Q8_0-00001-of-00002.gguf: 1 of its 2 parts") != std::string::npos);
  CHECK(choice->notes[1].find("mmproj-F16.gguf") != std::string::npos);
  CHECK(choice->bytes() == 10);
}

TEST_CASE("the choice fits into memory, and says why") {
  std::vector<hub_file> files{{"a-Q4_K_M.gguf", 4'000'000'000, {}, {}},
                              {"a-Q4_0.gguf", 2'500'000'000, {}, {}},
                              {"a-Q8_0.gguf", 7'000'000'000, {}, {}},
                              {"a-NVFP4.gguf", 1'000'000'000, {}, {}}};
  const auto roomy = choose_files(files, {}, memory_room{8'000'000'000, 5'000'000'000});
  REQUIRE(roomy);
  CHECK(roomy->why == "a-Q4_K_M.gguf: of NVFP4, Q4_0, Q4_K_M, Q8_0 the nearest to Q4_K_M");
  const auto small = choose_files(files, {}, memory_room{5'000'000'000, 3'000'000'000});
  REQUIRE(small);
  CHECK(small->why == "a-Q4_0.gguf: of NVFP4, Q4_0, Q4_K_M, Q8_0 the nearest to Q4_K_M that fits "
                      "into memory: a-Q4_K_M.gguf has 4.0 GB, and 5.0 GB available hold a file of "
                      "3.0 GB");
  const memory_room tiny{3'000'000'000, 2'000'000'000};
  const auto none = choose_files(files, {}, tiny);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == errc::does_not_fit);
  CHECK(none.error().message.find("a-Q4_0.gguf, has 2.5 GB; 3.0 GB of memory are available") !=
        std::string::npos);
  const auto named = choose_files(files, "Q8_0", tiny);
  REQUIRE(named);
  CHECK(named->gguf == "a-Q8_0.gguf");
  CHECK(named->notes.back().find("too large for this machine: 7.0 GB") != std::string::npos);
  files = {{"model.safetensors", 9'000'000'000, {}, {}}, {"config.json", 1, {}, {}}};
  const auto directory = choose_files(files, {}, tiny);
  REQUIRE(directory);
  CHECK(directory->notes.back().find("too large") != std::string::npos);
}

TEST_CASE("a quantization that is asked for is taken as written, in any case, or as a file") {
  CHECK(chosen({"a-Q8_0.gguf", "a-Q4_K_M.gguf"}, "q8_0") == "a-Q8_0.gguf");
  CHECK(chosen({"a-IQ4_XS.gguf", "a-Q4_K_M.gguf"}, "IQ4_XS") == "a-IQ4_XS.gguf");
  CHECK(chosen({"sub/a.gguf", "b.gguf"}, "sub/a.gguf") == "sub/a.gguf");
  CHECK(chosen({"a-UD-Q4_K_XL.gguf", "a-Q4_K_M.gguf"}, "UD-Q4_K_XL") == "a-UD-Q4_K_XL.gguf");
  const auto missing = choose_files(files_named({"a-Q8_0.gguf", "a-F16.gguf"}), "Q4_K_M");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == errc::not_found);
  CHECK(missing.error().message == "no GGUF file is Q4_K_M: there are F16, Q8_0");
}

TEST_CASE("a model in several parts is chosen like a file, with all of them") {
  const auto files =
      files_named({"a-Q4_K_M-00002-of-00003.gguf", "a-Q4_K_M-00001-of-00003.gguf", "a-Q8_0.gguf",
                   "a-Q4_K_M-00003-of-00003.gguf", "mmproj-F16-00001-of-00002.gguf"});
  const auto best = choose_files(files, {});
  REQUIRE_MESSAGE(best, best.error().message);
  CHECK(best->gguf == "a-Q4_K_M-00001-of-00003.gguf");
  const std::vector<std::string> parts{"a-Q4_K_M-00001-of-00003.gguf",
                                       "a-Q4_K_M-00002-of-00003.gguf",
                                       "a-Q4_K_M-00003-of-00003.gguf"};
  CHECK(paths_of(*best) == parts);
  CHECK(best->bytes() == 30);
  CHECK(best->why ==
        "a-Q4_K_M-00001-of-00003.gguf: of Q4_K_M, Q8_0 the nearest to Q4_K_M; it is in "
        "3 files");
  for (const auto& quant : {std::string("q4_k_m"), parts[0], parts[1]}) {
    CAPTURE(quant);
    const auto named = choose_files(files, quant);
    REQUIRE_MESSAGE(named, named.error().message);
    CHECK(named->gguf == parts[0]);
    CHECK(paths_of(*named) == parts);
  }
  // All of its bytes must fit.
  CHECK(choose_files(files, {}, memory_room{100, 29})->gguf == "a-Q8_0.gguf");
  CHECK(choose_files(files, {}, memory_room{100, 30})->gguf == parts[0]);
  // One file is preferred to parts of the same quantization.
  CHECK(chosen({"a-F16-00001-of-00002.gguf", "a-F16-00002-of-00002.gguf", "b/a-F16.gguf"}) ==
        "b/a-F16.gguf");
}

TEST_CASE("a model that lacks a part is left aside by name") {
  const auto files = files_named({"a-Q4_K_M-00001-of-00003.gguf", "a-Q4_K_M-00003-of-00003.gguf"});
  const auto alone = choose_files(files, {});
  REQUIRE_FALSE(alone);
  CHECK(alone.error().code == errc::not_found);
  CHECK(alone.error().message ==
        "its GGUF model is not complete: a-Q4_K_M-00001-of-00003.gguf: 2 of its 3 parts are there");
  for (const auto* quant : {"Q4_K_M", "a-Q4_K_M-00001-of-00003.gguf"}) {
    const auto named = choose_files(files, quant);
    REQUIRE_FALSE(named);
    CHECK(named.error().code == errc::not_found);
    CHECK(named.error().message == "a-Q4_K_M-00001-of-00003.gguf: 2 of its 3 parts are there");
  }
  auto more = files;
  more.push_back({"a-Q8_0.gguf", 10, {}, {}});
  const auto other = choose_files(more, {});
  REQUIRE(other);
  CHECK(other->gguf == "a-Q8_0.gguf");
  CHECK(other->notes.at(0) ==
        "left aside: a-Q4_K_M-00001-of-00003.gguf: 2 of its 3 parts are there");
}

TEST_CASE("weights that do not run are refused with a reason") {
  const auto other = choose_files(files_named({"a-NVFP4.gguf", "a-Q4_0_4_4.gguf"}), {});
  REQUIRE_FALSE(other);
  CHECK(other.error().message.find("NVFP4, Q4_0_4_4, which do not run here") != std::string::npos);
}

TEST_CASE("without GGUF files it is a directory of safetensors") {
  const auto one =
      choose_files(files_named({"README.md", "config.json", "generation_config.json",
                                "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                                "onnx/model.onnx", "adapter_model.safetensors"}),
                   {});
  REQUIRE_MESSAGE(one, one.error().message);
  CHECK(one->gguf.empty());
  CHECK(paths_of(*one) == std::vector<std::string>{"config.json", "generation_config.json",
                                                   "model.safetensors", "tokenizer.json",
                                                   "tokenizer_config.json"});
  CHECK(one->notes.at(0) == "left aside: adapter_model.safetensors");
  const auto shards = choose_files(
      files_named({"config.json", "consolidated.safetensors", "model-00001-of-00002.safetensors",
                   "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                   "tokenizer.json"}),
      {});
  REQUIRE(shards);
  CHECK(paths_of(*shards) ==
        std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                 "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                                 "tokenizer.json"});
  const auto pickles = choose_files(files_named({"config.json", "pytorch_model.bin"}), {});
  REQUIRE_FALSE(pickles);
  CHECK(pickles.error().message.find("pytorch_model.bin") != std::string::npos);
  CHECK_FALSE(choose_files(files_named({"model.safetensors"}), {}));
  CHECK_FALSE(choose_files(files_named({"config.json", "model.safetensors"}), "Q4_0"));
}

TEST_CASE("a file's name of a server stays below its directory") {
  for (const auto* good : {"a", "a/b.gguf", "..a/b", "a..b"})
    CHECK(is_file_path(good));
  for (const auto* bad : {"", "/a", "../a", "a/../b", "a/..", "a//b", "a/", "./a", "a\\b", "a\nb"})
    CHECK_FALSE(is_file_path(bad));
}
