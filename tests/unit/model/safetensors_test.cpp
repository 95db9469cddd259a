// safetensors files: the format, and malformed files. Each malformed file must end in an error that
// names the fault. None may crash, read outside the file or need more memory than the file's size
// justifies.
#include "runtime/model/json_file.hpp"
#include "runtime/model/safetensors/safetensors.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <random>

using namespace baton;
using model::safetensors_file;
using testing::safetensors_bytes;
using testing::scratch_directory;
using testing::write_file;

namespace {

result<safetensors_file> opened(std::string_view bytes) {
  const scratch_directory scratch;
  write_file(scratch / "model.safetensors", bytes);
  return safetensors_file::open(scratch / "model.safetensors");
}

// One tensor "t" of 8 data bytes.
std::string with(std::string_view info, std::size_t data = 8) {
  return safetensors_bytes(fmt::format(R"({{"t":{}}})", info), std::string(data, '\0'));
}

std::string info(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

struct safetensors_lie {
  std::string what;
  std::string bytes;
  errc code;
  std::string mentions;
};

std::vector<safetensors_lie> lies() {
  using enum errc;
  const auto length = [](std::uint64_t n) {
    return std::string(reinterpret_cast<const char*>(&n), sizeof(n));
  };
  const auto two = [](std::string_view a, std::string_view b, std::size_t data) {
    return safetensors_bytes(fmt::format(R"({{"a":{},"b":{}}})", a, b), std::string(data, '\0'));
  };
  const auto f32 = [](std::string_view offsets) { return info("F32", "[1]", offsets); };
  return {
      {"an empty file", "", bad_model_file, "too short"},
      {"seven bytes", "1234567", bad_model_file, "too short"},
      {"a header of 2^64 - 1", length(~0ULL) + "{}", bad_model_file, "header"},
      {"a header of 2^63", length(1ULL << 63U) + "{}", bad_model_file, "header"},
      {"a header one byte too long", length(3) + "{}", bad_model_file, "header of 3 bytes"},
      {"no JSON", safetensors_bytes("{", ""), bad_model_file, "not valid JSON"},
      {"no object", safetensors_bytes("[1]", ""), bad_model_file, "expected an object"},
      {"no UTF-8", safetensors_bytes("{\"\xff\":1}", ""), bad_model_file, "not valid JSON"},
      {"a bottomless header", safetensors_bytes("{\"a\":" + std::string(100000, '['), ""),
       bad_model_file, "the header"},
      {"a deep header",
       safetensors_bytes("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}", ""),
       bad_model_file, "levels deep"},
      {"a tensor twice",
       safetensors_bytes(fmt::format(R"({{"t":{0},"t":{0}}})", f32("[0,4]")), "1234"),
       bad_model_file, "'t' twice"},
      {"a tensor that is a number", with("7"), unsupported_model, "'t'"},
      {"no dtype", with(R"({"shape":[2],"data_offsets":[0,8]})"), unsupported_model, "'t'"},
      {"an unknown dtype", with(info("F8_E5M2", "[8]", "[0,8]")), unsupported_model, "'F8_E5M2'"},
      {"doubles", with(info("F64", "[1]", "[0,8]")), unsupported_model, "'F64'"},
      {"a type of GGUF alone", with(info("Q8_0", "[1]", "[0,34]")), unsupported_model, "'Q8_0'"},
      {"no shape", with(R"({"dtype":"F32","data_offsets":[0,8]})"), bad_model_file, "shape"},
      {"no offsets", with(info("F32", "[2]", "[]")), bad_model_file, "data_offsets"},
      {"five dimensions", with(info("F32", "[1,1,1,1,2]", "[0,8]")), bad_model_file, "shape"},
      {"a size below zero", with(info("F32", "[-2]", "[0,8]")), bad_model_file, "shape"},
      {"a size with a fraction", with(info("F32", "[2.0]", "[0,8]")), bad_model_file, "shape"},
      {"a size beyond 64 bits", with(info("F32", "[18446744073709551617]", "[0,8]")),
       bad_model_file, "shape"},
      {"a size of zero", with(info("F32", "[0]", "[0,0]"), 0), bad_model_file, "'t'"},
      {"a product of 2^64", with(info("F32", "[4294967296,1073741824]", "[0,0]"), 0),
       bad_model_file, "no valid size"},
      {"one offset", with(info("F32", "[2]", "[0]")), bad_model_file, "data_offsets"},
      {"three offsets", with(info("F32", "[2]", "[0,8,8]")), bad_model_file, "data_offsets"},
      {"offsets backwards", with(info("F32", "[2]", "[8,0]")), bad_model_file, "data_offsets"},
      {"offsets of another size", with(info("F32", "[1]", "[0,8]")), bad_model_file,
       "takes 4 bytes"},
      {"an end outside", with(info("F32", "[4]", "[0,16]")), bad_model_file, "the data at 8"},
      {"an end of 2^64 - 1",
       with(info("F32", "[1]", "[18446744073709551611,18446744073709551615]")), bad_model_file,
       "'t'"},
      {"an offset between two numbers", with(info("F32", "[1]", "[2,6]")), bad_model_file,
       "not aligned"},
      {"bytes before the first", with(info("F32", "[1]", "[4,8]")), bad_model_file,
       "4 bytes before tensor 't'"},
      {"bytes behind the last", with(info("F32", "[1]", "[0,4]")), bad_model_file,
       "the last 4 bytes"},
      {"a hole", two(f32("[0,4]"), f32("[8,12]"), 12), bad_model_file, "before tensor 'b'"},
      {"an overlap", two(info("F32", "[2]", "[0,8]"), f32("[4,8]"), 8), bad_model_file,
       "'a' and 'b' overlap"},
      {"the same bytes twice", two(f32("[0,4]"), f32("[0,4]"), 4), bad_model_file, "overlap"},
      {"an empty name", safetensors_bytes(fmt::format(R"({{"":{}}})", f32("[0,4]")), "1234"),
       bad_model_file, "name"},
  };
}

} // namespace

TEST_CASE("a safetensors file lists its tensors in the order of the data") {
  const std::string data = testing::bytes_of({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}) + "\x80\x3f";
  const auto file = opened(safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}}   )", // a single number
      data));
  REQUIRE_MESSAGE(file, file.error().message);
  REQUIRE(file->tensors().size() == 2);
  const auto& z = file->tensors()[0];
  CHECK(z.name == "z");
  CHECK(z.type == model::tensor_type::f32);
  CHECK(z.shape == std::vector<std::uint64_t>{3, 2}); // the contiguous dimension first
  CHECK(z.rows() == 2);
  std::array<float, 3> row{};
  model::dequantize_row(z.type, z.row(1).data(), row.data(), row.size());
  CHECK(row == std::array{4.0F, 5.0F, 6.0F});
  std::array<float, 3> copied{};
  REQUIRE(file->read(z, 12, std::as_writable_bytes(std::span(copied))));
  CHECK(copied == row);
  const auto& a = file->tensors()[1];
  CHECK(a.type == model::tensor_type::bf16);
  CHECK(a.shape == std::vector<std::uint64_t>{1});
  float one = 0;
  model::dequantize_row(a.type, a.bytes.data(), &one, 1);
  CHECK(one == 1.0F);
}

TEST_CASE("a malformed safetensors file is rejected by name") {
  for (const auto& each : lies()) {
    CAPTURE(each.what);
    const auto file = opened(each.bytes);
    REQUIRE(!file);
    CAPTURE(file.error().message);
    CHECK(file.error().code == each.code);
    CHECK(file.error().message.find(each.mentions) != std::string::npos);
    CHECK(file.error().message.find("model.safetensors") != std::string::npos);
  }
}

TEST_CASE("a safetensors file cut anywhere is rejected") {
  const auto whole = with(info("F32", "[2]", "[0,8]"));
  REQUIRE(opened(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(!opened(whole.substr(0, size)));
  }
}

TEST_CASE("no changed byte of a safetensors file causes a crash") {
  const auto whole = with(info("F16", "[2,2]", "[0,8]"));
  std::mt19937 random(1);
  const scratch_directory scratch;
  for (int round = 0; round < 2000; ++round) {
    auto bytes = whole;
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    write_file(scratch / "model.safetensors", bytes);
    if (const auto file = safetensors_file::open(scratch / "model.safetensors"))
      for (const auto& tensor : file->tensors())
        CHECK(tensor.bytes.size() == tensor.rows() * tensor.row_bytes());
  }
}

TEST_CASE("JSON is an object of bounded depth without duplicate names") {
  using model::parse_json_object;
  CHECK(parse_json_object(R"({"a":{"b":[1,{"c":2}],"d":{"b":1}}})", "x"));
  for (const auto* text : {"", "1", "[]", "null", "{\"a\":1,\"a\":1}", "{\"a\":{\"b\":1,\"b\":2}}",
                           "{\"a\":[{\"b\":1,\"b\":2}]}", "{} x", "{'a':1}"}) {
    CAPTURE(text);
    const auto parsed = parse_json_object(text, "some.json");
    REQUIRE(!parsed);
    CHECK(parsed.error().message.starts_with("some.json: "));
  }
  const auto nested = [](std::size_t levels) {
    return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  CHECK(parse_json_object(nested(model::json_depth_max), "x"));
  CHECK(!parse_json_object(nested(1000), "x"));
  CHECK(!parse_json_object(nested(1000000), "x"));
}
