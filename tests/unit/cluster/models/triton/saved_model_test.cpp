// TensorFlow SavedModels: the inputs and outputs in their files, and the completion of a
// repository's config.pbtxt.
#include "cluster/models/repository_scan.hpp"
#include "cluster/models/triton/saved_model_file.hpp"
#include "cluster/models/triton/triton_directory.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace baton;
using namespace baton::cluster;
using baton::gateway::worker_tensor;

namespace {

// The subset of protobuf that SavedModels need.
std::string pb_varint(std::uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7)
    out += static_cast<char>(n | 0x80);
  return out + static_cast<char>(n);
}
std::string pb_number(int field, std::uint64_t n) {
  return pb_varint(static_cast<std::uint64_t>(field) << 3) + pb_varint(n);
}
std::string pb_bytes(int field, const std::string& content) {
  return pb_varint(static_cast<std::uint64_t>(field) << 3 | 2) + pb_varint(content.size()) +
         content;
}
std::string pb_entry(int field, const std::string& key, const std::string& value) {
  return pb_bytes(field, pb_bytes(1, key) + pb_bytes(2, value));
}
std::string shape_of(std::vector<std::int64_t> dims) {
  std::string shape;
  for (const auto n : dims)
    shape += pb_bytes(2, pb_number(1, static_cast<std::uint64_t>(n)));
  return pb_bytes(3, shape);
}
// TensorInfo
std::string tensor_info(std::uint64_t type, std::vector<std::int64_t> dims) {
  return pb_bytes(1, "at:0") + pb_number(2, type) + shape_of(std::move(dims));
}
std::string signature_of(std::int64_t rows) {
  return pb_entry(1, "y", tensor_info(7, {rows, 3})) + pb_entry(1, "x", tensor_info(1, {rows, 2})) +
         pb_entry(2, "sum", tensor_info(9, {rows})) + pb_bytes(3, "tensorflow/serving/predict");
}
std::string graph_of(const std::string& tags, const std::string& signatures) {
  return pb_bytes(2, pb_bytes(1, tags) + pb_bytes(2, std::string(100'000, 'g')) + signatures);
}
std::string tag(const std::string& name) {
  return pb_bytes(4, name);
}
// Two graphs; the one to serve has two signatures and an initialisation operation.
std::string saved_model(std::int64_t rows) {
  return pb_number(1, 1) +
         graph_of(tag("train"),
                  pb_entry(5, "serving_default", pb_entry(2, "t", tensor_info(1, {})))) +
         graph_of(tag("serve") + tag("gpu"),
                  pb_entry(5, "__saved_model_init_op", pb_entry(2, "init", tensor_info(0, {}))) +
                      pb_entry(5, "serving_default", signature_of(rows)) +
                      pb_entry(5, "other", pb_entry(2, "half", tensor_info(19, {1}))));
}

result<model_signature> read_saved(const std::string& content, saved_model_choice choice = {}) {
  std::istringstream in(content);
  return read_saved_model(in, content.size(), choice);
}
std::string refusal_of_saved(const std::string& content, saved_model_choice choice = {}) {
  const auto made = read_saved(content, std::move(choice));
  return made ? std::string() : made.error().message;
}

struct saved_repository {
  baton::testing::scratch_directory place;

  void write(const std::string& file, const std::string& text) const {
    const auto path = place.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // The one version of "m".
  scanned_version scan() const {
    const auto there = read_model_repository(place.path());
    REQUIRE(there);
    const auto all = scan_repository(*there, {}).at("m");
    REQUIRE(all.size() == 1);
    return all.front();
  }
};

} // namespace

TEST_CASE("a SavedModel names the inputs and outputs of a signature") {
  const auto made = read_saved(saved_model(-1));
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->inputs == std::vector{worker_tensor{"x", "FP32", {-1, 2}, false},
                                    worker_tensor{"y", "BYTES", {-1, 3}, false}});
  CHECK(made->outputs == std::vector{worker_tensor{"sum", "INT64", {-1}, false}});
  const auto other = read_saved(saved_model(-1), {"gpu", "other"});
  REQUIRE_MESSAGE(other, other.error().message);
  CHECK(other->inputs.empty());
  CHECK(other->outputs == std::vector{worker_tensor{"half", "FP16", {1}, false}});
  const auto trained = read_saved(saved_model(-1), {"train", ""});
  REQUIRE_MESSAGE(trained, trained.error().message);
  CHECK(trained->outputs.front().shape.empty());
}

TEST_CASE("without serving_default another signature is used, but never an initialisation") {
  const auto model = graph_of(
      tag("serve"), pb_entry(5, "__saved_model_init_op", pb_entry(2, "i", tensor_info(1, {1}))) +
                        pb_entry(5, "predict", pb_entry(2, "p", tensor_info(1, {1}))));
  const auto made = read_saved(model);
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->outputs.front().name == "p");
  CHECK(refusal_of_saved(model, {"serve", "serving_default"}) ==
        "it has no signature 'serving_default' (TF_SIGNATURE_DEF), but __saved_model_init_op, "
        "predict");
  const auto odd = graph_of(tag("serve"), pb_entry(5, std::string("a\n\0\x80", 4),
                                                   pb_entry(2, "p", tensor_info(1, {1}))));
  CHECK(refusal_of_saved(odd, {"serve", "serving_default"}) ==
        "it has no signature 'serving_default' (TF_SIGNATURE_DEF), but a???");
  CHECK(refusal_of_saved(model, {"tpu", ""}) ==
        "it has no graph with the tag 'tpu' (TF_GRAPH_TAG)");
}

TEST_CASE("an invalid SavedModel, or one with unsupported types, is refused") {
  for (const auto& content : {std::string(), std::string("none"), std::string(100, '\0'),
                              saved_model(-1).substr(0, 50'000), pb_bytes(2, "\xff")}) {
    CHECK(refusal_of_saved(content) == "it is no SavedModel");
  }
  const auto with = [](const std::string& tensor) {
    return graph_of(tag("serve"), pb_entry(5, "serving_default", pb_entry(2, "o", tensor)));
  };
  CHECK(refusal_of_saved(with(tensor_info(8, {1}))).find("the type 8") != std::string::npos);
  CHECK(refusal_of_saved(with(pb_number(2, 1) + pb_bytes(3, pb_number(3, 1)))) ==
        "its output 'o' has no shape in the file: config.pbtxt must declare it");
  CHECK(refusal_of_saved(with(pb_number(2, 1) + pb_bytes(4, "sparse") + shape_of({1})))
            .find("no datatype") != std::string::npos);
  std::string many;
  for (int i = 0; i < 70'000; ++i)
    many += pb_entry(1, "i", pb_number(2, 1));
  CHECK(refusal_of_saved(graph_of(tag("serve"), pb_entry(5, "serving_default", many))) ==
        "its signatures have more than 65536 tensors");
}

TEST_CASE("a SavedModel without a config.pbtxt is served by its signature") {
  const saved_repository r;
  r.write("m/1/model.savedmodel/saved_model.pb", saved_model(-1));
  auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.platform == "tensorflow");
  CHECK(v.worker.max_batch_size == 4);
  CHECK(v.worker.inputs == std::vector{worker_tensor{"x", "FP32", {2}, false},
                                       worker_tensor{"y", "BYTES", {3}, false}});
  CHECK(v.worker.outputs == std::vector{worker_tensor{"sum", "INT64", {}, false}});
  REQUIRE(v.worker.command.size() == 6);
  CHECK(v.worker.command[2] == "baton_worker.tensorflow");
  CHECK(v.worker.command[3].ends_with("m/1/model.savedmodel"));
  CHECK(v.worker.triton_config.find(R"("platform":"tensorflow_savedmodel")") != std::string::npos);
  r.write("m/config.pbtxt", "platform: \"tensorflow_savedmodel\" parameters { key: "
                            "\"TF_SIGNATURE_DEF\" value { string_value: \"other\" } }");
  v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 0);
  CHECK(v.worker.inputs.empty());
  CHECK(v.worker.outputs.front().datatype == "FP16");
  r.write("m/config.pbtxt", "backend: \"tensorflow\" parameters { key: \"TF_GRAPH_TAG\" value { "
                            "string_value: \"tpu\" } }");
  CHECK(r.scan().refusal.find("the tag 'tpu'") != std::string::npos);
}

TEST_CASE("a GraphDef needs a config.pbtxt with its inputs and outputs") {
  const saved_repository r;
  r.write("m/1/model.graphdef", "graph");
  CHECK(r.scan().refusal.find("none can be made of a GraphDef") != std::string::npos);
  r.write("m/config.pbtxt", "max_batch_size: 8");
  CHECK(r.scan().refusal.find("must declare its inputs and outputs") != std::string::npos);
  r.write("m/config.pbtxt", "max_batch_size: 8 input { name: \"x\" data_type: TYPE_FP32 dims: 2 } "
                            "output { name: \"y\" data_type: TYPE_FP32 dims: 2 }");
  const auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.command[2] == "baton_worker.tensorflow");
  CHECK(v.worker.command[3].ends_with("m/1/model.graphdef"));
  CHECK(v.worker.triton_config.find(R"("platform":"tensorflow_graphdef")") != std::string::npos);
}
