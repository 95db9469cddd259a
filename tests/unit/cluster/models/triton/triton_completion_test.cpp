#include "cluster/models/repository_scan.hpp"
#include "cluster/models/triton/onnx_file.hpp"
#include "cluster/models/triton/triton_completion.hpp"
#include "schema/limits.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

using namespace baton;
using namespace baton::cluster;
using gateway::worker_tensor;

namespace {

// The subset of protobuf that ONNX needs.
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

// Inputs A and B and one with an initial value, W; an output C, with the first dimension `rows`.
std::string onnx_model(std::int64_t rows, const std::string& more = "") {
  const auto weights = number(1, 2) + bytes(8, "W") + bytes(9, std::string(100'000, 'w'));
  return number(1, 8) +
         bytes(7, bytes(1, bytes(4, "Add")) + bytes(2, "g") + bytes(5, weights) +
                      bytes(11, value("A", 1, {rows, 2})) +
                      bytes(11, value("B \"1\"", 8, {rows, 3, -1})) +
                      bytes(11, value("W", 1, {2})) + bytes(12, value("C", 7, {rows, 2})) + more) +
         bytes(8, number(2, 13));
}

result<model_signature> read_onnx(const std::string& content) {
  std::istringstream in(content);
  return read_onnx_signature(in, content.size());
}

std::string refusal_of(const std::string& content) {
  const auto made = read_onnx(content);
  return made ? std::string() : made.error().message;
}

bool is_shown(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

struct repository {
  baton::testing::scratch_directory place;

  void write(const std::string& file, const std::string& text) const {
    const auto path = place.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // The one model, "m".
  std::vector<scanned_version> scan_all() const {
    const auto there = read_model_repository(place.path());
    REQUIRE(there);
    return scan_repository(*there, {}).at("m");
  }
  scanned_version scan() const {
    auto all = scan_all();
    REQUIRE(all.size() == 1);
    return all.front();
  }
};

} // namespace

TEST_CASE("an ONNX file names its inputs and outputs, without reading its weights") {
  const repository r;
  r.write("f.onnx", onnx_model(-1));
  const auto read_onnx = read_onnx_signature(r.place.path() / "f.onnx");
  REQUIRE_MESSAGE(read_onnx, read_onnx.error().message);
  CHECK(read_onnx->inputs == std::vector{worker_tensor{"A", "FP32", {-1, 2}, false},
                                         worker_tensor{"B \"1\"", "BYTES", {-1, 3, -1}, false}});
  CHECK(read_onnx->outputs == std::vector{worker_tensor{"C", "INT64", {-1, 2}, false}});
}

TEST_CASE("an invalid or incomplete ONNX file is refused at any length") {
  const auto whole = onnx_model(2);
  for (std::size_t size = 0; size < 400; ++size) // the rest is weights
    CHECK(refusal_of(whole.substr(0, size)) == "it is no ONNX file");
  constexpr std::size_t behind_graph = 4; // opset_import, which is not needed
  for (std::size_t left = 1; left < 100; ++left) {
    CAPTURE(left);
    CHECK(refusal_of(whole.substr(0, whole.size() - left)) ==
          (left == behind_graph ? "" : "it is no ONNX file"));
  }
  CHECK(refusal_of(std::string(2000, '\xff')) == "it is no ONNX file");
  CHECK(refusal_of(onnx_model(2, bytes(12, bytes(1, "D") + bytes(2, bytes(1, number(1, 1))))))
            .find("output 'D' has no shape") != std::string::npos);
  CHECK(
      refusal_of(onnx_model(2, bytes(11, value("E", 16, {2})))).find("input 'E' has the type 16") !=
      std::string::npos);
}

TEST_CASE("no field has the number 0, or extends beyond its parent") {
  CHECK(refusal_of(onnx_model(2) + number(0, 0)) == "it is no ONNX file");
  CHECK(refusal_of(onnx_model(2) + bytes(0, "x")) == "it is no ONNX file");
  CHECK(refusal_of(onnx_model(2, number(0, 0))) == "it is no ONNX file");
  // A name of 9 bytes in an input of 4: within the file, and not within the input.
  const auto name = varint(1 << 3 | 2) + varint(9) + "ab";
  CHECK(refusal_of(onnx_model(2, bytes(11, name))) == "it is no ONNX file");
  CHECK(refusal_of(onnx_model(2) + varint(9 << 3 | 2) + varint(UINT64_MAX)) ==
        "it is no ONNX file");
}

TEST_CASE("a file built to take long is refused after a limit of fields") {
  const repository r;
  r.write("m/1/model.onnx", "");
  const auto file = r.place.path() / "m/1/model.onnx";
  std::filesystem::resize_file(file, std::uintmax_t{1} << 42); // zeros, which need no disk space
  const auto zeros = read_onnx_signature(file);
  REQUIRE_FALSE(zeros);
  CHECK(zeros.error().message.find("no ONNX file") != std::string::npos);
  std::string many;
  for (int i = 0; i < 1 << 20; ++i)
    many += number(1, 8);
  CHECK(refusal_of(onnx_model(2, many)) == "it has more than 1048576 fields");
}

TEST_CASE("only regular files are opened") {
  const repository r;
  r.write("m/config.pbtxt", "");
  std::filesystem::create_directories(r.place.path() / "m/1");
  REQUIRE(::mkfifo((r.place.path() / "m/1/model.onnx").c_str(), 0600) == 0);
  CHECK(read_onnx_signature(r.place.path() / "m/1/model.onnx").error().code == errc::io_failed);
  CHECK(r.scan().refusal.find("no file that can be read") != std::string::npos);
  CHECK(read_onnx_signature(r.place.path() / "m").error().code == errc::io_failed);
  CHECK(read_onnx_signature(r.place.path() / "absent").error().code == errc::io_failed);
}

TEST_CASE("names and tensors are bounded, and constants do not count") {
  const auto named = [](std::size_t size) { return std::string(size, 'n'); };
  const auto constant = [](const std::string& name) {
    return bytes(5, number(1, 2) + bytes(8, name));
  };
  CHECK(refusal_of(onnx_model(2, bytes(11, value(named(256), 1, {2})))).empty());
  CHECK(refusal_of(onnx_model(2, bytes(11, value(named(257), 1, {2})))) ==
        "its input 3: name must be a text of 1 to 256 bytes, UTF-8 without control characters");
  CHECK(refusal_of(onnx_model(2, bytes(11, value(named(257), 1, {2})) + constant(named(257))))
            .empty());
  CHECK(refusal_of(onnx_model(2, constant(named((64 << 10) + 1))))
            .find("a name in it has more than") != std::string::npos);
  std::string inputs, constants, outputs;
  for (std::size_t i = 2; i <= limits::tensors_max; ++i) { // A and B are there
    inputs += bytes(11, value("i" + std::to_string(i), 1, {2}));
    constants += constant("i" + std::to_string(i));
    outputs += bytes(12, value("o" + std::to_string(i), 1, {2}));
  }
  CHECK(refusal_of(onnx_model(2, inputs)) == "it has 257 inputs, at most 256 are served");
  CHECK(refusal_of(onnx_model(2, outputs + bytes(12, value("o", 1, {2})))) ==
        "it has 257 outputs, at most 256 are served");
  const auto two = read_onnx(onnx_model(2, inputs + constants));
  REQUIRE_MESSAGE(two, two.error().message);
  CHECK(two->inputs.size() == 2);
}

TEST_CASE("the memory for a file is bounded, whatever it contains") {
  std::string names, inputs;
  for (int i = 0; i < 1'500; ++i) // 96 MB
    names += bytes(5, bytes(8, std::string(64 << 10, 'n')));
  CHECK(refusal_of(onnx_model(2, names)).find("a name in it has more than") != std::string::npos);
  const auto one = bytes(11, value(std::string(200, 'n'), 1, {}));
  for (int i = 0; i < 80'000; ++i)
    inputs += one;
  CHECK(refusal_of(onnx_model(2, inputs)) ==
        "its tensor declarations take more than 16777216 bytes");
}

TEST_CASE("the target of a sparse initializer is constant") {
  const auto values = number(1, 2) + bytes(8, "S");
  const auto made = read_onnx(
      onnx_model(2, bytes(11, value("S", 1, {2})) + bytes(15, bytes(1, values) + number(3, 9))));
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->inputs.size() == 2);
}

TEST_CASE("a name that is no valid text is not shown") {
  for (const std::string name : {"", "a\nb", "\x1b[2J", "\xff", "a\xc3", "\xed\xa0\x80"}) {
    for (const auto& more : {bytes(11, value(name, 16, {2})), bytes(12, value(name, 1, {2}))}) {
      const auto refusal = refusal_of(onnx_model(2, more));
      CHECK(refusal.find("name must be a text") != std::string::npos);
      CHECK(is_shown(refusal));
    }
    const repository r;
    r.write("m/1/model.onnx", onnx_model(-1));
    r.write("m/config.pbtxt", "input { name: \"" + name +
                                  "\" data_type: TYPE_FP32 dims: 1 } "
                                  "output { name: \"C\" data_type: TYPE_FP32 dims: 1 }");
    CHECK_FALSE(r.scan().refusal.empty());
    CHECK_MESSAGE(is_shown(r.scan().refusal), r.scan().refusal);
    r.write("m/config.pbtxt", "name: \"" + name + "\" backend: \"" + name + "\"");
    CHECK(is_shown(r.scan().refusal));
  }
  CHECK(refusal_of(onnx_model(2, bytes(11, value("na\u00efve", 1, {2})))).empty());
}

TEST_CASE("an ONNX model without a config.pbtxt is served by its file, in batches of four") {
  const repository r;
  r.write("m/2/model.onnx", onnx_model(-1));
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

TEST_CASE("a batch tensor without another dimension is one number") {
  const repository r;
  r.write("m/1/model.onnx", onnx_model(-1, bytes(12, value("N", 7, {-1}))));
  const auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.outputs == std::vector{worker_tensor{"C", "INT64", {2}, false},
                                        worker_tensor{"N", "INT64", {}, false}});
}

TEST_CASE("each version is completed from its own file, and only the chosen ones") {
  const repository r;
  r.write("m/1/model.onnx", onnx_model(-1));
  r.write("m/2/model.onnx", onnx_model(5));
  r.write("m/3/model.onnx", "none");
  r.write("m/config.pbtxt", "version_policy { specific { versions: [ 1, 2 ] } }");
  auto all = r.scan_all();
  REQUIRE(all.size() == 2);
  REQUIRE_MESSAGE(all[0].refusal.empty(), all[0].refusal);
  CHECK(all[0].worker.max_batch_size == 4);
  CHECK(all[0].worker.inputs.front() == worker_tensor{"A", "FP32", {2}, false});
  REQUIRE_MESSAGE(all[1].refusal.empty(), all[1].refusal);
  CHECK(all[1].worker.max_batch_size == 0);
  CHECK(all[1].worker.inputs.front() == worker_tensor{"A", "FP32", {5, 2}, false});
  const auto imported = read_triton_model(r.place.path() / "m");
  REQUIRE_MESSAGE(imported, imported.error().message);
  CHECK(imported->versions == std::vector<std::uint32_t>{1, 2});
  CHECK(imported->completed_batch == 0);
  CHECK(imported->config.find("dims: [5, 2]") != std::string::npos);
  r.write("m/config.pbtxt", "version_policy { all { } }");
  all = r.scan_all(); // only the broken one fails
  REQUIRE(all.size() == 3);
  CHECK(all[0].refusal.empty());
  CHECK(all[2].version == "3");
  CHECK(all[2].refusal.find("no ONNX file") != std::string::npos);
  r.write("m/config.pbtxt", "version_policy { specific { versions: 7 } }");
  CHECK(r.scan().refusal == "version_policy names 7, there are 1, 2, 3");
  CHECK_FALSE(read_triton_model(r.place.path() / "m"));
}

TEST_CASE("a directory whose name begins with 0 is no version") {
  const repository r;
  r.write("m/0/model.onnx", onnx_model(-1));
  r.write("m/01/model.onnx", onnx_model(-1));
  const auto none = r.scan();
  CHECK_MESSAGE(none.refusal.find("a directory that is a number from 1") != std::string::npos,
                none.refusal);
  r.write("m/10/model.onnx", onnx_model(-1));
  r.write("m/config.pbtxt", "version_policy { all { } }");
  const auto all = r.scan_all();
  REQUIRE(all.size() == 1);
  CHECK(all.front().version == "10");
  r.write("m/config.pbtxt", "version_policy { specific { versions: 0 } }");
  CHECK(r.scan().refusal == "version_policy names 0, there are 10");
}

TEST_CASE("values of config.pbtxt stay, and the rest is added") {
  const repository r;
  r.write("m/1/model.onnx", onnx_model(-1));
  r.write("m/config.pbtxt", "max_batch_size: 16 output { name: \"C\" data_type: TYPE_INT64 dims: "
                            "[ 2 ] } dynamic_batching { preferred_batch_size: 8 }");
  auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 16);
  CHECK(v.worker.preferred_batch_size == std::vector<std::uint32_t>{8});
  CHECK(v.worker.inputs.size() == 2);
  CHECK(v.worker.outputs.size() == 1);
  CHECK(v.worker.command.size() == 4); // its own config.pbtxt gives the number of rows
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
  r.write("m/config.pbtxt", "batch_input { kind: BATCH_ELEMENT_COUNT target_name: \"A\" }");
  v = r.scan(); // an input, as Triton counts
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.inputs.empty());
  CHECK(v.worker.outputs.size() == 1);
}

TEST_CASE("a model without a variable first dimension has no batches") {
  const repository r;
  r.write("m/1/model.onnx", onnx_model(5));
  auto v = r.scan();
  REQUIRE_MESSAGE(v.refusal.empty(), v.refusal);
  CHECK(v.worker.max_batch_size == 0);
  CHECK(v.worker.batch_size == 1);
  CHECK(v.worker.inputs.front() == worker_tensor{"A", "FP32", {5, 2}, false});
  CHECK(v.worker.command.size() == 4);
  r.write("m/config.pbtxt", "max_batch_size: 8");
  CHECK(r.scan().refusal.find("'A' of the model has no first dimension") != std::string::npos);
}

TEST_CASE("for other files only the backend is found, and TorchScript is refused by name") {
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
  CHECK(r.scan().refusal.find("no model.onnx, model.savedmodel or model.py") != std::string::npos);
}
