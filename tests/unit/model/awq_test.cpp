// Matrices quantised by AWQ: rows are scale * (code - zero) to the last bit, and mismatches are
// rejected by name. Method: random codes, scales and zero points, against the formula.
#include "runtime/model/checkpoint/formats/awq.hpp"
#include "tests/unit/model/stored_module.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::awq_format;
using model::json;
using model::tensor_type;

namespace {

struct awq_module : stored_module {
  std::size_t in = 256, out = 40, group;
  std::vector<float> weights; // [out, in]

  awq_module(std::size_t group_size, bool is_symmetric, const char* scale_type = "F16")
      : group(group_size), weights(in * out) {
    constexpr std::array order = {0, 2, 4, 6, 1, 3, 5, 7}; // nibble i is of this output
    const auto groups = in / group;
    std::mt19937 random(11);
    std::vector<std::uint32_t> codes(in * out), zeros(groups * out), qweight(in * out / 8),
        qzeros(groups * out / 8);
    std::vector<std::uint16_t> scales;
    std::vector<float> numbers;
    for (auto& code : codes)
      code = static_cast<std::uint32_t>(random() % 16);
    for (auto& zero : zeros) {
      zero = is_symmetric ? 8 : static_cast<std::uint32_t>(random() % 16);
      const auto scale = static_cast<float>(random() % 1000 + 1) * 1e-4F;
      const bool is_half = std::string_view(scale_type) == "F16";
      scales.push_back(is_half ? model::f32_to_f16(scale) : model::f32_to_bf16(scale));
      numbers.push_back(is_half ? model::f16_to_f32(scales.back())
                                : model::bf16_to_f32(scales.back()));
    }
    for (std::size_t word = 0; word < qweight.size(); ++word)
      for (std::size_t i = 0; i < 8; ++i)
        qweight[word] |= codes[word * 8 + order[i]] << (4 * i);
    for (std::size_t word = 0; word < qzeros.size(); ++word)
      for (std::size_t i = 0; i < 8; ++i)
        qzeros[word] |= zeros[word * 8 + order[i]] << (4 * i);
    for (std::size_t i = 0; i < in; ++i)
      for (std::size_t o = 0; o < out; ++o) {
        const auto at = i / group * out + o;
        const auto difference = static_cast<int>(codes[i * out + o]) - static_cast<int>(zeros[at]);
        weights[o * in + i] = numbers[at] * static_cast<float>(difference);
      }
    set("qweight", "I32", {in, out / 8}, raw_bytes(qweight));
    set("qzeros", "I32", {groups, out / 8}, raw_bytes(qzeros));
    set("scales", scale_type, {groups, out}, raw_bytes(scales));
  }
  result<model::matrix_pointer> open() {
    return stored_module::open(awq_format(group == in ? 0 : group));
  }
};

} // namespace

TEST_CASE("AWQ's rows are scale * (code - zero) in every cut") {
  for (const std::size_t group : {32U, 64U, 128U, 256U})
    for (const bool is_symmetric : {true, false})
      for (const auto* scales : {"F16", "BF16"}) {
        CAPTURE(group);
        CAPTURE(is_symmetric);
        awq_module module(group, is_symmetric, scales);
        const auto matrix = module.open();
        REQUIRE_MESSAGE(matrix, matrix.error().message);
        const auto view = (*matrix)->view();
        CHECK(view.shape == std::vector<std::uint64_t>{256, 40});
        CHECK(view.type == (is_symmetric ? tensor_type::q4_0 : tensor_type::q5_0));
        check_cuts(module, **matrix, module.weights);
      }
}

TEST_CASE("AWQ's mismatching tensors are rejected by name") {
  const auto refused = [](const char* role, const char* dtype, std::vector<std::size_t> shape,
                          std::size_t bytes) {
    awq_module module(64, false);
    module.set(role, dtype, std::move(shape), std::string(bytes, '\0'));
    check_refused(module.open(), errc::bad_model_file, fmt::format("'X.{}'", role));
  };
  refused("qweight", "F32", {256, 5}, 5120);
  refused("qweight", "I32", {1280}, 5120);
  refused("qzeros", "I32", {3, 5}, 60);
  refused("qzeros", "I32", {4, 4}, 64);
  refused("scales", "F32", {4, 40}, 640);
  refused("scales", "F16", {5, 40}, 400);
  for (const auto* missing : {"qzeros", "scales"}) {
    awq_module module(64, false);
    module.leave_out(missing);
    check_refused(module.open(), errc::bad_model_file,
                  fmt::format("'X.qweight' lacks its {}", missing));
  }
  awq_module odd(64, false);
  odd.set("qweight", "I32", {240, 5}, std::string(4800, '\0'));
  check_refused(odd.open(), errc::unsupported_model, "'X.qweight' has 240 inputs");
  odd.group = 96;
  odd.set("qweight", "I32", {256, 5}, std::string(5120, '\0'));
  check_refused(odd.open(), errc::unsupported_model, "'group_size' (96)");
}

TEST_CASE("AWQ's quantization_config is rejected by the unsupported field") {
  const auto read = [](const char* field, const json& value) {
    json config = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "gemm"}};
    config[field] = value;
    return model::read_quantised_format(config);
  };
  CHECK((*read("bits", 4))->label() == "AWQ 4-bit, group 128");
  CHECK((*read("group_size", -1))->label() == "AWQ 4-bit, a group a row");
  CHECK(read("version", "GEMM"));
  CHECK(read("format", "gemm")); // of newer files
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, json>>{{"bits", 8},
                                                           {"bits", nullptr},
                                                           {"group_size", 48},
                                                           {"group_size", nullptr},
                                                           {"version", "gemv"},
                                                           {"version", "marlin"},
                                                           {"format", "gemv_fast"}}) {
    const auto found = read(field, value);
    REQUIRE(!found);
    CHECK(found.error().code == errc::unsupported_model);
    CHECK(found.error().message.find(fmt::format("'{}'", field)) != std::string::npos);
  }
}
