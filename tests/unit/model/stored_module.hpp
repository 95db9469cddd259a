// The tensors of one module X in a file, and the matrix that a format opens from them.
#pragma once

#include "runtime/model/checkpoint/formats/quantised_format.hpp"
#include "tests/support/checkpoint_writer.hpp"
#include "tests/support/scratch_directory.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace baton::testing {

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class stored_module {
public:
  void set(const std::string& role, const char* dtype, std::vector<std::size_t> shape,
           std::string bytes) {
    tensors_[role] = {dtype, std::move(shape), std::move(bytes)};
  }
  void leave_out(const std::string& role) { tensors_.erase(role); }
  std::filesystem::path path() const { return scratch_ / "model.safetensors"; }

  result<model::matrix_pointer> open(const model::quantised_format& format) {
    model::json header;
    std::string data;
    for (const auto& [role, t] : tensors_) {
      data.resize((data.size() + 7) / 8 * 8); // aligned
      header["X." + role] = {{"dtype", t.dtype},
                             {"shape", t.shape},
                             {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
      if (const auto gap = (8 - data.size() % 8) % 8; gap != 0) {
        header["gap." + role] = {
            {"dtype", "U8"}, {"shape", {gap}}, {"data_offsets", {data.size(), data.size() + gap}}};
      }
    }
    data.resize((data.size() + 7) / 8 * 8);
    write_file(path(), safetensors_bytes(header.dump(), data));
    auto file = model::safetensors_file::open(path());
    REQUIRE_MESSAGE(file, file.error().message);
    files.clear();
    files.push_back(*std::move(file));
    model::module_parts parts{"X", {}};
    for (const auto& tensor : files[0].tensors())
      if (tensor.name.starts_with("X."))
        parts.by_role[tensor.name.substr(2)] = {0, tensor};
    return format.open(parts, files);
  }

  // Rows [first, first + count) as floats.
  std::vector<float> rows(const model::quantised_matrix& matrix, std::uint64_t first,
                          std::uint64_t count) const {
    const auto view = matrix.view();
    std::vector<std::byte> bytes(count * view.row_bytes());
    const auto copied = matrix.copy_rows(files, first, count, bytes);
    REQUIRE_MESSAGE(copied, copied.error().message);
    std::vector<float> values(count * view.columns());
    model::dequantize_row(view.type, bytes.data(), values.data(), values.size());
    return values;
  }

  std::vector<model::safetensors_file> files;

private:
  struct entry {
    const char* dtype;
    std::vector<std::size_t> shape;
    std::string bytes;
  };
  scratch_directory scratch_;
  std::map<std::string, entry> tensors_;
};

// Whether rows of every cut have the bits of the whole matrix, `expected` [out, in].
inline void check_cuts(const stored_module& module, const model::quantised_matrix& matrix,
                       const std::vector<float>& expected) {
  const auto view = matrix.view();
  const auto rows = view.rows(), columns = view.columns();
  REQUIRE(expected.size() == rows * columns);
  for (std::uint64_t first = 0; first < rows; first += 1 + first)
    for (std::uint64_t count = 0; count <= rows - first; count += 1 + count) {
      const auto found = module.rows(matrix, first, count);
      CAPTURE(first);
      CAPTURE(count);
      CHECK((found.empty() || std::memcmp(found.data(), expected.data() + first * columns,
                                          found.size() * sizeof(float)) == 0));
    }
  CHECK(module.rows(matrix, 0, rows) == expected);
}

inline void check_refused(const result<model::matrix_pointer>& opened, errc code,
                          std::string_view mentions) {
  REQUIRE(!opened);
  CAPTURE(opened.error().message);
  CHECK(opened.error().code == code);
  CHECK(opened.error().message.find(mentions) != std::string::npos);
}

} // namespace baton::testing
