#include "runtime/model/gguf/gguf.hpp"

#include "runtime/model/gguf/gguf_header.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace baton::model {
namespace {

template <class T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

error in_file(const std::filesystem::path& path, const error& e) {
  return fail(e.code, "{}: {}", path.string(), e.message);
}

// Any scalar number of the file, in the widest type of its kind.
using scalar = std::variant<std::monostate, std::uint64_t, std::int64_t, double>;

scalar scalar_at(value_kind kind, const std::byte* at) noexcept {
  switch (kind) {
  case value_kind::u8:
    return std::uint64_t{load<std::uint8_t>(at)};
  case value_kind::u16:
    return std::uint64_t{load<std::uint16_t>(at)};
  case value_kind::u32:
    return std::uint64_t{load<std::uint32_t>(at)};
  case value_kind::u64:
    return load<std::uint64_t>(at);
  case value_kind::i8:
    return std::int64_t{load<std::int8_t>(at)};
  case value_kind::i16:
    return std::int64_t{load<std::int16_t>(at)};
  case value_kind::i32:
    return std::int64_t{load<std::int32_t>(at)};
  case value_kind::i64:
    return load<std::int64_t>(at);
  case value_kind::f32:
    return double{load<float>(at)};
  case value_kind::f64:
    return load<double>(at);
  case value_kind::boolean:
  case value_kind::string:
  case value_kind::array:
    break;
  }
  return std::monostate{};
}

template <class T>
std::optional<T> integer(const scalar& value) noexcept {
  if (const auto* u = std::get_if<std::uint64_t>(&value); u != nullptr && std::in_range<T>(*u)) {
    return static_cast<T>(*u);
  }
  if (const auto* i = std::get_if<std::int64_t>(&value); i != nullptr && std::in_range<T>(*i)) {
    return static_cast<T>(*i);
  }
  return std::nullopt;
}

std::optional<float> real(const scalar& value) noexcept {
  const auto* d = std::get_if<double>(&value);
  return d != nullptr ? std::optional(static_cast<float>(*d)) : std::nullopt;
}

error missing(std::string_view key) {
  return fail(errc::bad_model_file, "metadata key '{}' is missing", key);
}

} // namespace

result<gguf_file> gguf_file::open(const std::filesystem::path& path) {
  auto file = open_one(path);
  if (file) {
    if (auto r = file->open_parts(); !r) {
      return r.error();
    }
  }
  return file;
}

result<gguf_file> gguf_file::open_one(const std::filesystem::path& path) {
  auto data = mapped_file::open(path);
  if (!data) {
    return data.error();
  }
  gguf_file file;
  file.data_ = *std::move(data);
  file.size_bytes_ = file.data_.size_bytes();
  gguf_header_reader reader(file);
  if (auto r = reader.read(); !r) {
    return in_file(path, r.error());
  }
  file.fingerprint_ = mixed(file.size_bytes(), file.header_);
  for (std::size_t i = 0; i < file.tensors_.size(); ++i) {
    const auto& extent = reader.extents()[i];
    file.tensors_[i].bytes = file.data_.bytes().subspan(extent.offset, extent.size);
    const auto hash = mixed_sample(file.fingerprint_, file.data_, extent.offset, extent.size);
    if (!hash) {
      return in_file(path, hash.error());
    }
    file.fingerprint_ = *hash;
  }
  return file;
}

result<gguf_file> gguf_file::open_header(const std::filesystem::path& path,
                                         std::uint64_t file_bytes) {
  auto data = mapped_file::open(path);
  if (!data) {
    return data.error();
  }
  gguf_file file;
  file.data_ = *std::move(data);
  file.size_bytes_ = std::max(file_bytes, file.data_.size_bytes());
  if (auto r = gguf_header_reader(file).read(); !r) {
    return r.error();
  }
  return file;
}

bool gguf_file::has(std::string_view key) const noexcept {
  return find_entry(key) != nullptr;
}

std::vector<std::string> gguf_file::keys() const {
  std::vector<std::string> names;
  names.reserve(metadata_.size());
  for (const auto& [key, value] : metadata_) {
    names.push_back(key);
  }
  return names;
}

const gguf_file::entry* gguf_file::find_entry(std::string_view key) const noexcept {
  const auto it = metadata_.find(key);
  return it != metadata_.end() ? &it->second : nullptr;
}

std::optional<std::uint64_t> gguf_file::array_size(std::string_view key) const noexcept {
  const auto* found = find_entry(key);
  return found != nullptr && found->is_array ? std::optional(found->count) : std::nullopt;
}

error gguf_file::wrong_kind(std::string_view key, std::string_view wanted) const {
  const auto* found = find_entry(key);
  return fail(errc::bad_model_file, "metadata key '{}' is {}{}, not {}", key,
              found->is_array ? "an array of " : "", name_of(static_cast<value_kind>(found->kind)),
              wanted);
}

template <class T, class Convert>
result<T> gguf_file::number(std::string_view key, std::string_view wanted, Convert convert) const {
  const auto* found = find_entry(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->is_array) {
    return wrong_kind(key, wanted);
  }
  const auto kind = static_cast<value_kind>(found->kind);
  if (const auto value = convert(scalar_at(kind, header_.data() + found->offset))) {
    return *value;
  }
  return wrong_kind(key, wanted);
}

template <class T, class Convert>
result<std::vector<T>> gguf_file::numbers(std::string_view key, std::string_view wanted,
                                          Convert convert) const {
  const auto* found = find_entry(key);
  if (found == nullptr) {
    return missing(key);
  }
  const auto kind = static_cast<value_kind>(found->kind);
  const auto size = size_of(kind);
  if (!found->is_array || !size) {
    return wrong_kind(key, wanted);
  }
  std::vector<T> values;
  values.reserve(found->count);
  for (std::uint64_t i = 0; i < found->count; ++i) {
    const auto value = convert(scalar_at(kind, header_.data() + found->offset + i * *size));
    if (!value) {
      return wrong_kind(key, wanted);
    }
    values.push_back(*value);
  }
  return values;
}

result<std::uint32_t> gguf_file::get_u32(std::string_view key) const {
  return number<std::uint32_t>(key, "an integer that fits 32 unsigned bits",
                               integer<std::uint32_t>);
}
result<std::uint64_t> gguf_file::get_u64(std::string_view key) const {
  return number<std::uint64_t>(key, "an integer that fits 64 unsigned bits",
                               integer<std::uint64_t>);
}
result<float> gguf_file::get_f32(std::string_view key) const {
  return number<float>(key, "a floating-point number", real);
}

result<bool> gguf_file::get_bool(std::string_view key) const {
  const auto* found = find_entry(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->is_array || static_cast<value_kind>(found->kind) != value_kind::boolean) {
    return wrong_kind(key, "a bool");
  }
  const auto value = load<std::uint8_t>(header_.data() + found->offset);
  if (value > 1) {
    return fail(errc::bad_model_file, "metadata key '{}' is a bool of value {}", key, value);
  }
  return value == 1;
}

result<std::vector<std::string>> gguf_file::strings_of(std::string_view key, bool is_array) const {
  const auto* found = find_entry(key);
  if (found == nullptr) {
    return missing(key);
  }
  if (found->is_array != is_array || static_cast<value_kind>(found->kind) != value_kind::string) {
    return wrong_kind(key, is_array ? "an array of strings" : "a string");
  }
  std::vector<std::string> strings;
  strings.reserve(found->count);
  const std::byte* at = header_.data() + found->offset;
  for (std::uint64_t i = 0; i < found->count; ++i) { // lengths were checked at open
    const auto length = load<std::uint64_t>(at);
    strings.emplace_back(reinterpret_cast<const char*>(at + sizeof(length)), length);
    at += sizeof(length) + length;
  }
  return strings;
}

result<std::string> gguf_file::get_string(std::string_view key) const {
  auto strings = strings_of(key, /*is_array=*/false);
  return strings ? result<std::string>(std::move(strings->front())) : strings.error();
}
result<std::vector<std::string>> gguf_file::get_strings(std::string_view key) const {
  return strings_of(key, /*is_array=*/true);
}
// `numbers` knows no bools, which are single bytes here.
result<std::vector<std::uint32_t>> gguf_file::get_u32s(std::string_view key) const {
  const auto* found = find_entry(key);
  constexpr auto boolean = static_cast<std::uint32_t>(value_kind::boolean);
  if (found == nullptr || !found->is_array || found->kind != boolean) {
    return numbers<std::uint32_t>(key, "an array of integers", integer<std::uint32_t>);
  }
  std::vector<std::uint32_t> values;
  for (std::uint64_t i = 0; i < found->count; ++i) {
    values.push_back(load<std::uint8_t>(header_.data() + found->offset + i) != 0 ? 1 : 0);
  }
  return values;
}
result<std::vector<std::int32_t>> gguf_file::get_i32s(std::string_view key) const {
  return numbers<std::int32_t>(key, "an array of 32-bit integers", integer<std::int32_t>);
}
result<std::vector<float>> gguf_file::get_f32s(std::string_view key) const {
  return numbers<float>(key, "an array of floating-point numbers", real);
}

std::optional<tensor_view> gguf_file::find(std::string_view name) const {
  const auto it = index_by_name_.find(name);
  return it != index_by_name_.end() ? std::optional(tensors_[it->second]) : std::nullopt;
}

result<void> gguf_file::copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                                  std::span<std::byte> out) const {
  const auto it = index_by_name_.find(name);
  if (it == index_by_name_.end()) {
    return fail(errc::not_found, "{}: no tensor '{}'", path().string(), name);
  }
  const auto& tensor = tensors_[it->second];
  if (auto r = check_rows(tensor, first, count, out.size()); !r) {
    return r;
  }
  const mapped_file& data = file_with(it->second);
  const auto start = static_cast<std::uint64_t>(tensor.bytes.data() - data.bytes().data());
  if (auto r = data.read_at(start + first * tensor.row_bytes(), out); !r) {
    return fail(r.error().code, "{}: tensor '{}': {}", data.path().string(), name,
                r.error().message);
  }
  return {};
}

} // namespace baton::model
