// Values of tensors of every datatype between JSON and bytes.
#include "gateway/request/tensor_data.hpp"
#include "schema/limits.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;
using namespace std::string_literals;

namespace {

std::string bytes(std::string_view datatype, const char* text, std::size_t count) {
  const auto made = bytes_of_json("t", datatype, json::parse(text), count);
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(check_bytes("t", datatype, *made, count));
  return *made;
}

std::string json_of_tensor(std::string_view datatype, std::string_view data,
                           bool is_value = false) {
  std::string out;
  const auto ok = append_json(out, "t", datatype, data, is_value);
  REQUIRE_MESSAGE(ok, ok.error().message);
  return out;
}

} // namespace

TEST_CASE("values written as JSON are read back as the same bytes, of every datatype") {
  const std::pair<const char*, const char*> values[] = {
      {"BOOL", "[true,false]"},
      {"INT8", "[-128,127]"},
      {"INT16", "[-32768,32767]"},
      {"INT32", "[-2147483648,2147483647]"},
      {"INT64", "[-9223372036854775808,9223372036854775807]"},
      {"UINT8", "[0,255]"},
      {"UINT16", "[0,65535]"},
      {"UINT32", "[0,4294967295]"},
      {"UINT64", "[0,18446744073709551615]"},
      {"FP32", "[0.1,-1e+30]"},
      {"FP64", "[0.1,-1e+300]"},
      {"BYTES", R"(["a\"\u00e9",""])"},
  };
  for (const auto& [datatype, text] : values) {
    CAPTURE(datatype);
    const auto data = bytes(datatype, text, 2);
    CHECK(json::parse(json_of_tensor(datatype, data)) == json::parse(text));
    CHECK(bytes(datatype, json_of_tensor(datatype, data).c_str(), 2) == data);
  }
  CHECK(bytes("INT8", "[[1],[-1]]", 2) == "\x01\xff"s);
  CHECK(bytes("UINT16", "258", 1) == "\x02\x01"s);
  CHECK(bytes("BYTES", R"(["ab"])", 1) == "\x02\0\0\0ab"s);
  CHECK(json_of_tensor("UINT8", "\x07", true) == "7");
  CHECK(json_of_tensor("INT32", "") == "[]");
}

TEST_CASE("a value that does not fit its datatype or shape is refused by the tensor's name") {
  const std::pair<const char*, const char*> wrong[] = {
      {"BOOL", "[1]"},    {"INT8", "[128]"},
      {"INT8", "[-129]"}, {"UINT8", "[-1]"},
      {"UINT8", "[256]"}, {"INT32", "[1.5]"},
      {"UINT64", "[-1]"}, {"INT64", "[9223372036854775808]"},
      {"FP32", "[1e39]"}, {"FP32", R"(["1"])"},
      {"BYTES", "[1]"},   {"FP64", "[null]"},
      {"INT32", "[{}]"},  {"FP16", "[1]"},
      {"BF16", "[1]"},    {"FP8", "[1]"},
      {"INT32", "[1,2]"}, {"INT32", "[]"},
  };
  for (const auto& [datatype, text] : wrong) {
    CAPTURE(datatype);
    CAPTURE(text);
    const auto made = bytes_of_json("odd", datatype, json::parse(text), 1);
    REQUIRE_FALSE(made);
    CHECK(made.error().param == "odd");
  }
}

TEST_CASE("bytes match their shape exactly") {
  CHECK(check_bytes("t", "FP16", "1234", 2));
  CHECK(check_bytes("t", "INT64", "", 0));
  CHECK(check_bytes("t", "BYTES", "\x01\0\0\0a\0\0\0\0"s, 2));
  const std::pair<const char*, std::string> wrong[] = {
      {"FP32", "123"},
      {"FP32", "12345678"},
      {"BYTES", "\x01\0\0\0"s},
      {"BYTES", "\x01\0\0"s},
      {"BYTES", "\xff\xff\xff\xff"s},
      {"BYTES", "\0\0\0\0\0"s},
      {"BYTES", ""},
      {"FLOAT", "1234"},
  };
  for (const auto& [datatype, data] : wrong) {
    CAPTURE(datatype);
    CHECK_FALSE(check_bytes("t", datatype, data, 1));
  }
}

TEST_CASE("values that JSON cannot express are refused") {
  std::string out;
  CHECK_FALSE(append_json(out, "t", "FP32", "\0\0\xc0\x7f"s));
  CHECK_FALSE(append_json(out, "t", "FP16", "12"));
  CHECK_FALSE(append_json(out, "t", "BYTES", "\x01\0\0\0\xff"s));
}

TEST_CASE("a shape counts its elements, within a message's limit") {
  const auto count = [](std::vector<std::int64_t> shape) { return element_count("t", shape); };
  CHECK(*count({}) == 1);
  CHECK(*count({2, 3}) == 6);
  CHECK(*count({0, INT64_MAX}) == 0);
  CHECK_FALSE(count({-1}));
  CHECK_FALSE(count({INT64_MAX, INT64_MAX}));
  CHECK_FALSE(count({1 << 20, 1 << 20}));
  CHECK_FALSE(count(std::vector<std::int64_t>(limits::dimensions_max + 1, 1)));
}

TEST_CASE("a datatype has its name in config.pbtxt") {
  for (const auto& row : datatypes) {
    CHECK(datatype_of_config(config_type_of(row.name)) == row.name);
  }
  CHECK(config_type_of("BYTES") == "TYPE_STRING");
  for (const auto* none : {"TYPE_BYTES", "TYPE_INVALID", "FP32", ""}) {
    CHECK(datatype_of_config(none).empty());
  }
}
