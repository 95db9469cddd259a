// Matrices quantised by GPTQ: rows are scale * (code - zero) to the last bit, and mismatches are
// rejected by name. Method: files with random codes, scales and zero points, written in each form,
// against the formula.
#include "runtime/model/checkpoint/formats/gptq.hpp"
#include "tests/unit/model/stored_module.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace baton;
using namespace baton::testing;
using model::gptq_config;
using model::json;
using model::tensor_type;

namespace {

// A file's tensors of one matrix, and their meaning.
struct gptq_module {
  std::size_t in, out, groups;
  std::uint32_t bits;
  std::vector<std::uint32_t> codes;  // [in, out]
  std::vector<std::uint32_t> zeros;  // [groups, out]
  std::vector<std::uint16_t> scales; // [groups, out]
  std::vector<std::uint32_t> group_of;

  gptq_module(std::size_t inputs, std::size_t outputs, std::size_t group, bool is_symmetric,
              std::uint32_t width = 4)
      : in(inputs), out(outputs), groups(inputs / group), bits(width) {
    std::mt19937 random(7);
    const std::uint32_t levels = 1U << bits;
    for (std::size_t i = 0; i < in * out; ++i)
      codes.push_back(static_cast<std::uint32_t>(random() % levels));
    for (std::size_t i = 0; i < groups * out; ++i) {
      zeros.push_back(is_symmetric ? levels / 2 : static_cast<std::uint32_t>(random() % levels));
      scales.push_back(model::f32_to_f16(static_cast<float>(random() % 1000 + 1) * 1e-4F));
    }
    for (std::size_t i = 0; i < in; ++i)
      group_of.push_back(static_cast<std::uint32_t>(i / group));
  }

  std::vector<float> weights() const {
    std::vector<float> all;
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) {
        const auto at = group_of[i] * out + o;
        const auto code = static_cast<int>(codes[i * out + o]);
        all.push_back(model::f16_to_f32(scales[at]) *
                      static_cast<float>(code - static_cast<int>(zeros[at])));
      }
    return all;
  }
};

struct gptq_file : stored_module {
  gptq_config config;

  gptq_file(const gptq_module& q, bool has_lowered_zeros) {
    const std::size_t per_word = 32 / q.bits;
    std::vector<std::uint32_t> qweight(q.in / per_word * q.out), qzeros(q.zeros.size() / per_word);
    for (std::size_t i = 0; i < q.codes.size(); ++i)
      qweight[i / q.out / per_word * q.out + i % q.out] |= q.codes[i]
                                                           << (q.bits * (i / q.out % per_word));
    for (std::size_t i = 0; i < q.zeros.size(); ++i)
      qzeros[i / per_word] |= q.zeros[i] << (q.bits * (i % per_word));
    std::uint32_t ones = 0;
    for (std::uint32_t bit = 0; bit < 32; bit += q.bits)
      ones |= 1U << bit;
    for (auto& word : qzeros)
      word -= has_lowered_zeros ? ones : 0;
    config.bits = q.bits;
    config.group_size = q.groups == 1 ? 0 : q.in / q.groups;
    config.has_lowered_zeros = has_lowered_zeros;
    set("qweight", "I32", {q.in / per_word, q.out}, raw_bytes(qweight));
    set("qzeros", "I32", {q.groups, q.out / per_word}, raw_bytes(qzeros));
    set("scales", "F16", {q.groups, q.out}, raw_bytes(q.scales));
    set("g_idx", "I32", {q.in}, raw_bytes(q.group_of));
  }
  result<model::matrix_pointer> open() { return stored_module::open(model::gptq_format(config)); }
};

std::vector<float> as_f16(std::vector<float> values) {
  for (auto& value : values)
    value = model::f16_to_f32(model::f32_to_f16(value));
  return values;
}

} // namespace

TEST_CASE("rows are scale * (code - zero) in every form and every cut") {
  for (const std::size_t group : {32U, 64U, 128U, 256U})
    for (const bool is_symmetric : {true, false})
      for (const bool has_lowered_zeros : {true, false}) {
        CAPTURE(group);
        CAPTURE(is_symmetric);
        CAPTURE(has_lowered_zeros);
        const gptq_module q(256, 40, group, is_symmetric);
        gptq_file file(q, has_lowered_zeros);
        const auto matrix = file.open();
        REQUIRE_MESSAGE(matrix, matrix.error().message);
        const auto view = (*matrix)->view();
        CHECK(view.shape == std::vector<std::uint64_t>{256, 40});
        CHECK(view.type == (is_symmetric ? tensor_type::q4_0 : tensor_type::q5_0));
        check_cuts(file, **matrix, q.weights());
      }
}

TEST_CASE("codes of 2 and 8 bits have the smallest exact type") {
  for (const auto& [bits, is_symmetric, type] : {std::tuple{2U, true, tensor_type::q4_0},
                                                 {2U, false, tensor_type::q4_0},
                                                 {8U, true, tensor_type::q8_0},
                                                 {8U, false, tensor_type::f16}})
    for (const bool has_lowered_zeros : {true, false}) {
      CAPTURE(bits);
      CAPTURE(is_symmetric);
      const gptq_module q(128, 48, 64, is_symmetric, bits);
      gptq_file file(q, has_lowered_zeros);
      const auto matrix = file.open();
      REQUIRE_MESSAGE(matrix, matrix.error().message);
      CHECK((*matrix)->view().type == type);
      check_cuts(file, **matrix, type == tensor_type::f16 ? as_f16(q.weights()) : q.weights());
    }
}

// "desc_act": the quantiser took the inputs in another order.
TEST_CASE("inputs in any group are rounded to F16") {
  for (const bool is_symmetric : {true, false})
    for (const std::uint32_t bits : {4U, 8U}) {
      gptq_module q(128, 32, 32, is_symmetric, bits);
      std::shuffle(q.group_of.begin(), q.group_of.end(), std::mt19937(3));
      gptq_file file(q, true);
      const auto matrix = file.open();
      REQUIRE_MESSAGE(matrix, matrix.error().message);
      CHECK((*matrix)->view().type == tensor_type::f16);
      check_cuts(file, **matrix, as_f16(q.weights()));
    }
}

TEST_CASE("a matrix without g_idx has groups of consecutive inputs") {
  const gptq_module q(64, 8, 32, false);
  gptq_file file(q, true);
  file.leave_out("g_idx");
  const auto matrix = file.open();
  REQUIRE_MESSAGE(matrix, matrix.error().message);
  check_cuts(file, **matrix, q.weights());
}

TEST_CASE("mismatching tensors are rejected by name") {
  const gptq_module q(64, 16, 32, true);
  const auto refused = [&](const char* role, const char* dtype, std::vector<std::size_t> shape,
                           std::size_t bytes) {
    gptq_file file(q, true);
    file.set(role, dtype, std::move(shape), std::string(bytes, '\0'));
    check_refused(file.open(), errc::bad_model_file, fmt::format("'X.{}'", role));
  };
  refused("qweight", "F32", {8, 16}, 512);
  refused("qweight", "I32", {128}, 512);
  refused("qweight", "I32", {8, 4, 4}, 512);
  refused("qzeros", "I32", {1, 2}, 8);  // a group too few
  refused("qzeros", "I32", {2, 1}, 8);  // outputs
  refused("qzeros", "I32", {4}, 16);    // a dimension too few
  refused("qzeros", "F32", {2, 2}, 16); // another type
  refused("scales", "BF16", {2, 16}, 64);
  refused("scales", "F16", {1, 16}, 32);
  refused("scales", "F16", {16, 2}, 64);
  refused("g_idx", "I32", {63}, 252);
  refused("g_idx", "F32", {64}, 256);
  for (const auto* missing : {"qzeros", "scales"}) {
    gptq_file file(q, true);
    file.leave_out(missing);
    check_refused(file.open(), errc::bad_model_file, missing);
  }
}

TEST_CASE("sizes and groups that do not divide are rejected") {
  const gptq_module q(64, 16, 32, true);
  gptq_file eight_bits(q, true); // one code per byte: twice the words
  eight_bits.set("qweight", "I32", {16, 16}, std::string(1024, '\0'));
  check_refused(eight_bits.open(), errc::bad_model_file, "'X.qzeros'");
  gptq_file narrow(q, true);
  narrow.set("qweight", "I32", {3, 16}, std::string(192, '\0'));
  check_refused(narrow.open(), errc::unsupported_model, "24 inputs");
  gptq_file odd(q, true);
  odd.set("qweight", "I32", {8, 12}, std::string(384, '\0'));
  check_refused(odd.open(), errc::unsupported_model, "12 outputs");
  for (const std::uint64_t size : {std::uint64_t{128}, std::uint64_t{96}, ~std::uint64_t{31}}) {
    gptq_file wide(q, true);
    wide.config.group_size = size;
    check_refused(wide.open(), errc::unsupported_model, fmt::format("'group_size' ({})", size));
  }
  for (const std::size_t input : {std::size_t{0}, std::size_t{31}, std::size_t{63}})
    for (const std::uint32_t group : {2U, 7U, ~0U}) {
      gptq_file ordered(q, true);
      auto g_idx = q.group_of;
      g_idx[input] = group;
      ordered.set("g_idx", "I32", {64}, raw_bytes(g_idx));
      check_refused(ordered.open(), errc::bad_model_file,
                    fmt::format("'X.g_idx' has input {} in group {} of 2", input, group));
    }
}

TEST_CASE("a file truncated after it was opened is an error") {
  const gptq_module q(64, 16, 32, false);
  gptq_file file(q, true);
  const auto matrix = file.open();
  REQUIRE(matrix);
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 100);
  std::vector<std::byte> out(16 * (*matrix)->view().row_bytes());
  const auto copied = (*matrix)->copy_rows(file.files, 0, 16, out);
  REQUIRE(!copied);
  CHECK(copied.error().code == errc::io_failed);
}

TEST_CASE("GPTQ's quantization_config is rejected by the unsupported field") {
  const json plain = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  const auto with = [&](const char* field, const json& value) {
    json changed = plain;
    changed[field] = value;
    return model::read_gptq_config(changed);
  };
  const auto refused = [&](const char* field, const json& value) {
    const auto read = with(field, value);
    REQUIRE(!read);
    CAPTURE(read.error().message);
    CHECK(read.error().code == errc::unsupported_model);
    CHECK(read.error().message.find(fmt::format("'{}'", field)) != std::string::npos);
    CHECK(read.error().message.find(value.is_null() ? "absent" : value.dump()) !=
          std::string::npos);
  };
  for (const json& bits : {json(5), json(3), json(16), json("4"), json(nullptr), json(4.5)})
    refused("bits", bits);
  for (const json& size :
       {json(0), json(16), json(48), json(-2), json(32.5), json("128"), json(nullptr), json(false)})
    refused("group_size", size);
  for (const auto* format : {"marlin", "bitblas", "gemm", ""})
    refused("checkpoint_format", format);
  refused("format", "marlin");
  refused("pack_dtype", "int16");
  refused("is_marlin_format", true);
  refused("dynamic", {{"+:.*down.*", {{"bits", 8}}}});
  refused("dynamic", {1});
  CHECK(with("bits", 4)->group_size == 128);
  CHECK(with("bits", 8)->bits == 8);
  CHECK(with("group_size", -1)->group_size == 0);
  CHECK(with("checkpoint_format", nullptr)->has_lowered_zeros);
  CHECK(with("checkpoint_format", "gptq")->has_lowered_zeros);
  CHECK(!with("checkpoint_format", "gptq_v2")->has_lowered_zeros);
  CHECK(!with("format", "gptq_v2")->has_lowered_zeros);
  CHECK(with("dynamic", {{"-:.*mlp.*", json::object()}}));
  CHECK(with("dynamic", json::object()));
  CHECK(with("desc_act", true)); // the order of the inputs decides, not the wish
}
