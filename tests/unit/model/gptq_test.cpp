// Matrices quantised by GPTQ: rows are scale * (code - zero) to the last bit, and mismatches are
// rejected by name. Method: files with random codes, scales and zero points, written in each form,
// against the formula.
#include "runtime/model/checkpoint/gptq.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <random>

using namespace baton;
using model::gptq_config;
using model::gptq_matrix;
using model::json;
using model::tensor_view;
using testing::scratch_directory;

namespace {

constexpr std::uint32_t ones = 0x11111111;

// A file's tensors of one matrix, and their meaning.
struct quantised {
  std::size_t in, out, group;
  std::vector<std::uint32_t> codes;  // [in, out], 0 to 15
  std::vector<std::uint32_t> zeros;  // [groups, out], 0 to 15
  std::vector<std::uint16_t> scales; // [groups, out]

  quantised(std::size_t inputs, std::size_t outputs, std::size_t group_size, bool is_symmetric)
      : in(inputs), out(outputs), group(group_size) {
    std::mt19937 random(7);
    for (std::size_t i = 0; i < in * out; ++i)
      codes.push_back(random() % 16);
    for (std::size_t i = 0; i < in / group * out; ++i) {
      zeros.push_back(is_symmetric ? 8 : random() % 16);
      scales.push_back(model::f32_to_f16(static_cast<float>(random() % 1000 + 1) * 1e-4F));
    }
  }

  float weight(std::size_t output, std::size_t input) const {
    const auto at = input / group * out + output;
    const auto difference =
        static_cast<int>(codes[input * out + output]) - static_cast<int>(zeros[at]);
    return model::f16_to_f32(scales[at]) * static_cast<float>(difference);
  }
};

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A file with the tensors of X, and X opened from it.
class stored {
public:
  stored(const quantised& q, bool has_lowered_zeros) {
    std::vector<std::uint32_t> qweight(q.in / 8 * q.out), qzeros(q.zeros.size() / 8), g_idx(q.in);
    for (std::size_t i = 0; i < q.codes.size(); ++i)
      qweight[i / q.out / 8 * q.out + i % q.out] |= q.codes[i] << (4 * (i / q.out % 8));
    for (std::size_t i = 0; i < q.zeros.size(); ++i)
      qzeros[i / 8] |= q.zeros[i] << (4 * (i % 8));
    for (auto& word : qzeros)
      word -= has_lowered_zeros ? ones : 0;
    for (std::size_t i = 0; i < q.in; ++i)
      g_idx[i] = static_cast<std::uint32_t>(i / q.group);
    const auto groups = q.in / q.group;
    config.group_size = q.group == q.in ? 0 : q.group;
    config.has_lowered_zeros = has_lowered_zeros;
    set("X.qweight", "I32", {q.in / 8, q.out}, raw(qweight));
    set("X.qzeros", "I32", {groups, q.out / 8}, raw(qzeros));
    set("X.scales", "F16", {groups, q.out}, raw(q.scales));
    set("X.g_idx", "I32", {q.in}, raw(g_idx));
  }

  void set(const std::string& name, const char* dtype, std::vector<std::size_t> shape,
           std::string bytes) {
    tensors_[name] = {dtype, std::move(shape), std::move(bytes)};
  }

  result<gptq_matrix> open() {
    json header;
    std::string data;
    for (const auto& [name, t] : tensors_) {
      header[name] = {{"dtype", t.dtype},
                      {"shape", t.shape},
                      {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
    }
    testing::write_file(path(), testing::safetensors_bytes(header.dump(), data));
    auto file = model::safetensors_file::open(path());
    REQUIRE_MESSAGE(file, file.error().message);
    files.clear();
    files.push_back(*std::move(file));
    found_.clear();
    for (const auto& tensor : files[0].tensors())
      found_[tensor.name] = {0, tensor};
    return gptq_matrix::open({.qweight = part("X.qweight"),
                              .qzeros = part("X.qzeros"),
                              .scales = part("X.scales"),
                              .g_idx = part("X.g_idx")},
                             config, files);
  }
  void leave_out(const std::string& name) { tensors_.erase(name); }
  std::filesystem::path path() const { return scratch_ / "model.safetensors"; }

  gptq_config config;
  std::vector<model::safetensors_file> files;

private:
  struct entry {
    const char* dtype;
    std::vector<std::size_t> shape;
    std::string bytes;
  };
  const model::stored_tensor* part(const std::string& name) {
    const auto found = found_.find(name);
    return found != found_.end() ? &found->second : nullptr;
  }

  scratch_directory scratch_;
  std::map<std::string, entry> tensors_;
  std::map<std::string, model::stored_tensor> found_;
};

// Rows [first, first + count) as floats.
std::vector<float> gptq_rows(const stored& file, const gptq_matrix& matrix, std::uint64_t first,
                             std::uint64_t count) {
  const tensor_view view = matrix.view("X");
  std::vector<std::byte> bytes(count * view.row_bytes());
  const auto copied = matrix.copy_rows(file.files, first, count, bytes);
  REQUIRE_MESSAGE(copied, copied.error().message);
  std::vector<float> values(count * view.columns());
  model::dequantize_row(view.type, bytes.data(), values.data(), values.size());
  return values;
}

void check_rows(const quantised& q, const stored& file, const gptq_matrix& matrix,
                std::uint64_t first, std::uint64_t count) {
  const auto values = gptq_rows(file, matrix, first, count);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float expected = q.weight(first + i / q.in, i % q.in);
    wrong += expected != values[i];
  }
  CHECK(wrong == 0);
}

void check_refused(const result<gptq_matrix>& opened, errc code, std::string_view mentions) {
  REQUIRE(!opened);
  CAPTURE(opened.error().message);
  CHECK(opened.error().code == code);
  CHECK(opened.error().message.find(mentions) != std::string::npos);
}

} // namespace

TEST_CASE("rows are scale * (code - zero) in every form and every cut") {
  for (const std::size_t group : {32U, 64U, 128U, 256U})
    for (const bool is_symmetric : {true, false})
      for (const bool has_lowered_zeros : {true, false}) {
        CAPTURE(group);
        CAPTURE(is_symmetric);
        CAPTURE(has_lowered_zeros);
        const quantised q(256, 40, group, is_symmetric);
        stored file(q, has_lowered_zeros);
        const auto matrix = file.open();
        REQUIRE_MESSAGE(matrix, matrix.error().message);
        const auto view = matrix->view("X");
        CHECK(view.shape == std::vector<std::uint64_t>{256, 40});
        CHECK(view.type == (is_symmetric ? model::tensor_type::q4_0 : model::tensor_type::q5_0));
        check_rows(q, file, *matrix, 0, 40);
        for (const std::uint64_t first : {0U, 1U, 7U, 33U, 39U})
          for (std::uint64_t count = 0; count <= 40 - first; count += 1 + count)
            check_rows(q, file, *matrix, first, count);
      }
}

TEST_CASE("a matrix without g_idx has groups of consecutive inputs") {
  const quantised q(64, 8, 32, false);
  stored file(q, true);
  file.leave_out("X.g_idx");
  const auto matrix = file.open();
  REQUIRE_MESSAGE(matrix, matrix.error().message);
  check_rows(q, file, *matrix, 0, 8);
}

TEST_CASE("mismatching tensors are rejected by name") {
  const quantised q(64, 16, 32, true);
  const std::string two_words(8, '\0');
  const auto refused = [&](const char* name, const char* dtype, std::vector<std::size_t> shape,
                           std::size_t bytes) {
    stored file(q, true);
    file.set(name, dtype, std::move(shape), std::string(bytes, '\0'));
    const auto opened = file.open();
    check_refused(opened, errc::bad_model_file, fmt::format("'{}'", name));
  };
  refused("X.qweight", "F32", {8, 16}, 512);
  refused("X.qweight", "I32", {128}, 512);
  refused("X.qweight", "I32", {8, 4, 4}, 512);
  refused("X.qzeros", "I32", {1, 2}, 8);  // a group too few
  refused("X.qzeros", "I32", {2, 1}, 8);  // outputs
  refused("X.qzeros", "I32", {4}, 16);    // a dimension too few
  refused("X.qzeros", "F32", {2, 2}, 16); // another type
  refused("X.scales", "BF16", {2, 16}, 64);
  refused("X.scales", "F16", {1, 16}, 32);
  refused("X.scales", "F16", {16, 2}, 64);
  refused("X.g_idx", "I32", {63}, 252);
  refused("X.g_idx", "F32", {64}, 256);
  for (const auto* missing : {"qzeros", "scales"}) {
    stored file(q, true);
    file.leave_out(std::string("X.") + missing);
    check_refused(file.open(), errc::bad_model_file, missing);
  }
}

TEST_CASE("sizes and orders without a block layout are rejected") {
  const quantised q(64, 16, 32, true);
  stored eight_bits(q, true); // one code per byte: twice the words
  eight_bits.set("X.qweight", "I32", {16, 16}, std::string(1024, '\0'));
  check_refused(eight_bits.open(), errc::bad_model_file, "'X.qzeros'");
  stored narrow(q, true);
  narrow.set("X.qweight", "I32", {3, 16}, std::string(192, '\0'));
  check_refused(narrow.open(), errc::unsupported_model, "24 inputs");
  stored odd(q, true);
  odd.set("X.qweight", "I32", {8, 12}, std::string(384, '\0'));
  check_refused(odd.open(), errc::unsupported_model, "12 outputs");
  for (const std::uint64_t size : {std::uint64_t{128}, std::uint64_t{96}, ~std::uint64_t{31}}) {
    stored wide(q, true);
    wide.config.group_size = size;
    check_refused(wide.open(), errc::unsupported_model, fmt::format("'group_size' ({})", size));
  }
  for (const std::size_t input : {std::size_t{0}, std::size_t{31}, std::size_t{63}})
    for (const std::uint32_t group : {7U, ~0U}) {
      stored ordered(q, true);
      std::vector<std::uint32_t> g_idx(64);
      std::fill(g_idx.begin() + 32, g_idx.end(), 1U);
      g_idx[input] = group;
      ordered.set("X.g_idx", "I32", {64}, raw(g_idx));
      check_refused(ordered.open(), errc::unsupported_model,
                    fmt::format("input {} in group {}", input, group));
    }
}

TEST_CASE("a file truncated after it was opened is an error") {
  const quantised q(64, 16, 32, false);
  stored file(q, true);
  const auto matrix = file.open();
  REQUIRE(matrix);
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 100);
  std::vector<std::byte> out(16 * matrix->view("X").row_bytes());
  const auto copied = matrix->copy_rows(file.files, 0, 16, out);
  REQUIRE(!copied);
  CHECK(copied.error().code == errc::io_failed);
}

TEST_CASE("quantization_config is rejected by the unsupported field") {
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
  for (const auto* method : {"awq", "bitsandbytes", "compressed-tensors", "fp8", "auto-round"})
    refused("quant_method", method);
  refused("quant_method", nullptr);
  for (const json& bits : {json(8), json(3), json(2), json("4"), json(nullptr)})
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
  CHECK(!model::read_gptq_config("gptq"));
  CHECK(with("bits", 4)->group_size == 128);
  CHECK(with("group_size", -1)->group_size == 0);
  CHECK(with("checkpoint_format", nullptr)->has_lowered_zeros);
  CHECK(with("checkpoint_format", "gptq")->has_lowered_zeros);
  CHECK(!with("checkpoint_format", "gptq_v2")->has_lowered_zeros);
  CHECK(!with("format", "gptq_v2")->has_lowered_zeros);
  CHECK(with("dynamic", {{"-:.*mlp.*", json::object()}}));
  CHECK(with("dynamic", json::object()));
  CHECK(with("desc_act", true)); // the order of the inputs decides, not the wish
}
