#include "runtime/model/safetensors/safetensors.hpp"

#include "runtime/model/json_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace baton::model {
namespace {

constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);

// A tensor of the header with the position of its bytes, relative to the data.
struct placed_tensor {
  tensor_view view;
  std::uint64_t begin = 0, end = 0;
};

result<tensor_type> type_of(const std::string& name, const json& info) {
  using enum tensor_type;
  constexpr std::array types = {bf16, f16, f32, f8_e4m3, f8_e8m0, i8, i32, i64, u8};
  const auto dtype = text_of(info, "dtype");
  std::string names;
  for (const auto type : types) { // named as in our table
    const auto known = tensor_type_traits(type).name;
    if (dtype == known) {
      return type;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known);
  }
  return fail(errc::unsupported_model, "tensor '{}' has dtype '{}': this build reads {}", name,
              dtype, names);
}

// A list of whole numbers. Errors: bad_model_file (names the tensor).
result<std::vector<std::uint64_t>> numbers_of(const std::string& name, const json& info,
                                              std::string_view field, std::size_t count_max) {
  const auto* list = member_of(info, field);
  if (list == nullptr || !list->is_array() || list->size() > count_max) {
    return fail(errc::bad_model_file, "tensor '{}': {} is not a list of up to {} numbers", name,
                field, count_max);
  }
  std::vector<std::uint64_t> numbers;
  for (const auto& each : *list) {
    if (!each.is_number_unsigned()) {
      return fail(errc::bad_model_file, "tensor '{}': {} holds a {}, not a whole number", name,
                  field, each.type_name());
    }
    numbers.push_back(each.get<std::uint64_t>());
  }
  return numbers;
}

std::optional<std::uint64_t> bytes_of(const std::vector<std::uint64_t>& shape, tensor_type type) {
  std::uint64_t product = tensor_type_traits(type).block_bytes;
  for (const auto size : shape) {
    if (size == 0 || __builtin_mul_overflow(product, size, &product)) {
      return std::nullopt;
    }
  }
  return product;
}

result<placed_tensor> tensor_of(const std::string& name, const json& info) {
  if (name.empty() || name.size() > safetensors_limits::name_bytes_max) {
    return fail(errc::bad_model_file, "a tensor's name has {} bytes, not 1 to {}", name.size(),
                safetensors_limits::name_bytes_max);
  }
  const auto type = type_of(name, info);
  if (!type) {
    return type.error();
  }
  auto shape = numbers_of(name, info, "shape", safetensors_limits::dimensions_max);
  if (!shape) {
    return shape.error();
  }
  if (shape->empty()) { // a single number
    shape->push_back(1);
  }
  const auto offsets = numbers_of(name, info, "data_offsets", 2);
  if (!offsets) {
    return offsets.error();
  }
  const auto bytes = bytes_of(*shape, *type);
  if (!bytes) {
    return fail(errc::bad_model_file, "tensor '{}': no valid size for shape [{}]", name,
                fmt::join(*shape, ", "));
  }
  if (offsets->size() != 2 || offsets->back() < offsets->front() ||
      offsets->back() - offsets->front() != *bytes) {
    return fail(errc::bad_model_file, "tensor '{}': {} [{}] takes {} bytes, data_offsets are [{}]",
                name, tensor_type_traits(*type).name, fmt::join(*shape, ", "), *bytes,
                fmt::join(*offsets, ", "));
  }
  if (offsets->front() % tensor_type_traits(*type).block_bytes != 0) {
    return fail(errc::bad_model_file, "tensor '{}': data offset {} is not aligned to its {}", name,
                offsets->front(), tensor_type_traits(*type).name);
  }
  std::reverse(shape->begin(), shape->end());
  return placed_tensor{{name, *type, *std::move(shape), {}}, offsets->front(), offsets->back()};
}

// Checks that the data is filled once and without a gap. Requires: sorted by `begin`.
result<void> check_layout(const std::vector<placed_tensor>& tensors, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& t = tensors[i];
    if (t.end > data_bytes) {
      return fail(errc::bad_model_file, "tensor '{}' ends at data offset {}, the data at {}",
                  t.view.name, t.end, data_bytes);
    }
    if (t.begin < end) {
      return fail(errc::bad_model_file, "tensors '{}' and '{}' overlap", tensors[i - 1].view.name,
                  t.view.name);
    }
    if (t.begin > end) {
      return fail(errc::bad_model_file, "no tensor holds the {} bytes before tensor '{}'",
                  t.begin - end, t.view.name);
    }
    end = t.end;
  }
  if (end != data_bytes) {
    return fail(errc::bad_model_file, "no tensor holds the last {} bytes of the data",
                data_bytes - end);
  }
  return {};
}

} // namespace

std::string shape_of(const tensor_view& tensor) {
  return fmt::format("{} [{}]", tensor_type_traits(tensor.type).name,
                     fmt::join(tensor.shape.rbegin(), tensor.shape.rend(), ", "));
}

result<safetensors_file> safetensors_file::open(const std::filesystem::path& path) {
  auto data = mapped_file::open(path);
  if (!data) {
    return data.error();
  }
  safetensors_file file;
  file.data_ = *std::move(data);
  if (auto r = file.read_header(); !r) {
    return fail(r.error().code, "{}: {}", path.string(), r.error().message);
  }
  return file;
}

result<void> safetensors_file::read_header() {
  std::uint64_t length = 0;
  if (data_.size_bytes() < length_bytes) {
    return fail(errc::bad_model_file, "{} bytes: too short for a safetensors file",
                data_.size_bytes());
  }
  if (auto r = data_.read_at(0, std::as_writable_bytes(std::span(&length, 1))); !r) {
    return r;
  }
  if (length > safetensors_limits::header_bytes_max || length > data_.size_bytes() - length_bytes) {
    return fail(errc::bad_model_file,
                "a header of {} bytes is claimed; the file has {}, the limit is {}", length,
                data_.size_bytes(), safetensors_limits::header_bytes_max);
  }
  std::string text(length, '\0');
  if (auto r = data_.read_at(length_bytes, std::as_writable_bytes(std::span(text))); !r) {
    return r;
  }
  const auto header = parse_json_object(text, "the header");
  if (!header) {
    return header.error();
  }
  if (header->size() > safetensors_limits::tensor_count_max) {
    return fail(errc::bad_model_file, "{} tensors claimed, the limit is {}", header->size(),
                safetensors_limits::tensor_count_max);
  }
  std::vector<placed_tensor> tensors;
  for (const auto& [name, info] : header->items()) {
    if (name == "__metadata__") { // describes the file's origin
      continue;
    }
    auto tensor = tensor_of(name, info);
    if (!tensor) {
      return tensor.error();
    }
    tensors.push_back(*std::move(tensor));
  }
  std::ranges::sort(tensors, {}, &placed_tensor::begin);
  data_start_ = length_bytes + length;
  if (auto r = check_layout(tensors, data_.size_bytes() - data_start_); !r) {
    return r;
  }
  for (auto& t : tensors) {
    t.view.bytes = data_.bytes().subspan(data_start_ + t.begin, t.end - t.begin);
    tensors_.push_back(std::move(t.view));
  }
  return {};
}

result<std::uint64_t> safetensors_file::mixed_into(std::uint64_t hash) const {
  std::vector<std::byte> header(data_start_);
  if (auto r = data_.read_at(0, header); !r) {
    return r.error();
  }
  const auto size = data_.size_bytes();
  hash = mixed(mixed(hash, std::as_bytes(std::span(&size, 1))), header);
  for (const auto& tensor : tensors_) {
    const auto start = static_cast<std::uint64_t>(tensor.bytes.data() - data_.bytes().data());
    const auto next = mixed_sample(hash, data_, start, tensor.bytes.size());
    if (!next) {
      return next;
    }
    hash = *next;
  }
  return hash;
}

result<void> safetensors_file::read(const tensor_view& tensor, std::uint64_t offset,
                                    std::span<std::byte> out) const {
  const auto start = static_cast<std::uint64_t>(tensor.bytes.data() - data_.bytes().data());
  if (auto r = data_.read_at(start + offset, out); !r) {
    return fail(r.error().code, "{}: {}", path().string(), r.error().message);
  }
  return {};
}

} // namespace baton::model
