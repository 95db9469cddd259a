#include "cluster/onnx_file.hpp"
#include "cluster/repository_scan.hpp"
#include "cluster/triton_completion.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

using namespace baton;
using namespace baton::cluster;
using gateway::worker_tensor;

namespace {

// Protobuf, as far as ONNX needs it.
std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7)
    out += static_cast<char>(n | 0x80);
  return out + static_cast<char>(n);
}
std::string number(int field, std::uint64_t n) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(n);
}
std::string bytes(int field, const std::string& content) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(content.size()) + content;
}
std::string value(const std::string& name, std::uint64_t element, std::vector<std::int64_t> dims) {
  std::string shape;
  for (const auto n : dims)
    shape += bytes(1, n < 0 ? bytes(2, "any") : number(1, static_cast<std::uint64_t>(n)));
  return bytes(1, name) + bytes(2, bytes(1, number(1, element) + bytes(2, shape)));
}

// Inputs A and B and one with a value of its own, W; an output C, with the first dimension `rows`.
std::string model(std::int64_t rows, const std::string& more = "") {
  const auto weights = number(1, 2) + bytes(8, "W") + bytes(9, std::string(100'000, 'w'));
  return number(1, 8) +
         bytes(7, bytes(1, bytes(4, "Add")) + bytes(2, "g") + bytes(5, weights) +
                      bytes(11, value("A", 1, {rows, 2})) +
                      bytes(11, value("B \"1\"", 8, {rows, 3, -1})) +
                      bytes(11, value("W", 1, {2})) + bytes(12, value("C", 7, {rows, 2})) + more) +
         bytes(8, number(2, 13));
}

struct repository {
  baton::testing::scratch_directory place;

  void write(const std::string& file, const std::string& text) const {
    const auto path = place.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // The one model, "m".
  scanned_version scan() const {
    const auto read = read_model_repository(place.path());
    REQUIRE(read);
    auto all = scan_repository(*read, {});
    REQUIRE(all.at("m").size() == 1);
    return all.at("m").front();
  }
};

} // namespace

TEST_CASE("an ONNX file names its inputs and outputs, without reading its weights") {
  const repository r;
  r.write("f.onnx", model(-1));
  const auto read = read_onnx_signature(r.place.path() / "f.onnx");
  REQUIRE_MESSAGE(read, read.error().message);
  CHECK(read->inputs == std::vector{worker_tensor{"A", "FP32", {-1, 2}, false},
                                    worker_tensor{"B \"1\"", "BYTES", {-1, 3, -1}, false}});
  CHECK(read->outputs == std::vector{worker_tensor{"C", "INT64", {-1, 2}, false}});
}

TEST_CASE("what is no ONNX file, or does not say enough, is refused wherever it ends") {
  const repository r;
  const auto refusal = [&](const std::string& content) {
    r.write("f.onnx", content);
    const auto read = read_onnx_signature(r.place.path() / "f.onnx");
    return read ? std::string() : read.error().message;
  };
  const auto whole = model(2);
  for (std::size_t size = 0; size < 400; ++size) // the rest is weights
    CHECK(refusal(whole.substr(0, size)).find("no ONNX file") != std::string::npos);
  for (std::size_t left = 1; left < 100; ++left)
    refusal(whole.substr(0, whole.size() - left));
  CHECK(refusal(std::string(2000, '\xff')).find("no ONNX file") != std::string::npos);
  CHECK(refusal(model(2, bytes(12, bytes(1, "D") + bytes(2, bytes(1, number(1, 1))))))
            .find("output 'D' has no shape") != std::string::npos);
  CHECK(refusal(model(2, bytes(11, value("E", 16, {2})))).find("input 'E' has the type 16") !=
        std::string::npos);
  CHECK(read_onnx_signature(r.place.path() / "absent").error().code == errc::io_failed);
}

TEST_CASE("without a config.pbtxt an ONNX model is served as its file says, in batches of four") {
  const repository r;
  r.write("m/2/model.onnx", model(-1));
  const auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.version == "2");
  CHECK(v.worker.platform == "onnxruntime");
  CHECK(v.worker.max_batch_size == 4);
  CHECK(v.worker.batch_size == 4); // dynamic_batching
  CHECK(v.worker.max_batch_delay.count() == 0);
  CHECK(v.worker.inputs == std::vector{worker_tensor{"A", "FP32", {2}, false},
                                       worker_tensor{"B \"1\"", "BYTES", {3, -1}, false}});
  CHECK(v.worker.outputs == std::vector{worker_tensor{"C", "INT64", {2}, false}});
  REQUIRE(v.worker.command.size() == 6);
  CHECK(v.worker.command[2] == "baton_worker.onnx");
  CHECK(v.worker.command[4] == "--max-batch-size");
  CHECK(v.worker.command[5] == "4");
}

TEST_CASE("a tensor of a batch that has no other dimension is one number") {
  const repository r;
  r.write("m/1/model.onnx", model(-1, bytes(12, value("N", 7, {-1}))));
  const auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.outputs == std::vector{worker_tensor{"C", "INT64", {2}, false},
                                        worker_tensor{"N", "INT64", {}, false}});
}

TEST_CASE("what config.pbtxt says stays, and the rest is added") {
  const repository r;
  r.write("m/1/model.onnx", model(-1));
  r.write("m/config.pbtxt", "max_batch_size: 16 output { name: \"C\" data_type: TYPE_INT64 dims: "
                            "[ 2 ] } dynamic_batching { preferred_batch_size: 8 }");
  auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 16);
  CHECK(v.worker.preferred_batch_size == std::vector<std::uint32_t>{8});
  CHECK(v.worker.inputs.size() == 2);
  CHECK(v.worker.outputs.size() == 1);
  CHECK(v.worker.command.size() == 4); // its own config.pbtxt says how many rows
  r.write("m/config.pbtxt", "max_batch_size: 0");
  v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 0);
  CHECK(v.worker.inputs.front() == worker_tensor{"A", "FP32", {-1, 2}, false});
  CHECK(v.worker.command.size() == 4);
  r.write("m/config.pbtxt", "backend: \"onnxruntime\" input { name: \"A\" data_type: TYPE_FP32 "
                            "dims: [ -1, 2 ] } output { name: \"C\" data_type: TYPE_INT64 }");
  v = r.scan(); // complete, as Triton sees it
  CHECK(v.worker.max_batch_size == 0);
  CHECK(v.worker.inputs.size() == 1);
}

TEST_CASE("a model without a first dimension of any size takes no batches") {
  const repository r;
  r.write("m/1/model.onnx", model(5));
  auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 0);
  CHECK(v.worker.batch_size == 1);
  CHECK(v.worker.inputs.front() == worker_tensor{"A", "FP32", {5, 2}, false});
  CHECK(v.worker.command.size() == 4);
  r.write("m/config.pbtxt", "max_batch_size: 8");
  CHECK(r.scan().refusal.find("'A' of the model has no first dimension") != std::string::npos);
}

TEST_CASE("of other files the backend alone is found, and TorchScript is refused by name") {
  const repository r;
  r.write("m/1/model.py", "");
  auto v = r.scan();
  CHECK_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.command[2] == "baton_worker.triton");
  CHECK(v.worker.inputs.empty());
  std::filesystem::remove(r.place.path() / "m/1/model.py");
  r.write("m/1/model.pt", "");
  CHECK(r.scan().refusal.find("TorchScript") != std::string::npos);
  r.write("m/config.pbtxt", "max_batch_size: 2");
  v = r.scan();
  CHECK_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(std::any_of(v.notes.begin(), v.notes.end(), [](const std::string& note) {
    return note.find("not checked") != std::string::npos;
  }));
  std::filesystem::remove(r.place.path() / "m/config.pbtxt");
  std::filesystem::remove(r.place.path() / "m/1/model.pt");
  CHECK(r.scan().refusal.find("no model.onnx or model.py") != std::string::npos);
}
