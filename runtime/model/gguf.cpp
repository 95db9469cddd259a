#include "runtime/model/gguf.hpp"

#include "runtime/model/gguf_header.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <system_error>
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

std::uint64_t mixed(std::uint64_t hash, std::span<const std::byte> bytes) noexcept {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15; // 2^64 / golden ratio
  while (!bytes.empty()) {
    std::array<std::byte, 8> word{};
    const auto take = std::min(bytes.size(), word.size());
    std::memcpy(word.data(), bytes.data(), take);
    hash = (hash ^ std::bit_cast<std::uint64_t>(word)) * odd;
    hash ^= hash >> 29U;
    bytes = bytes.subspan(take);
  }
  return hash;
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
  gguf_file file;
  file.path_ = path;
  // O_NONBLOCK: a FIFO in place of a file must not block; it means nothing to a regular file.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &status) != 0) {
    return fail(errc::io_failed, "{}: {}", path.string(), std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(errc::io_failed, "{}: not a regular file", path.string());
  }
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  gguf_header_reader reader(file);
  if (auto r = reader.read(); !r) {
    return in_file(path, r.error());
  }
  void* mapping = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (mapping == MAP_FAILED) {
    return fail(errc::io_failed, "{}: mapping {} bytes: {}", path.string(), file.size_,
                std::generic_category().message(errno));
  }
  file.mapping_ = static_cast<const std::byte*>(mapping);
  file.fingerprint_ = mixed(file.size_, file.header_);
  for (std::size_t i = 0; i < file.tensors_.size(); ++i) {
    const auto& extent = reader.extents()[i];
    file.tensors_[i].bytes = {file.mapping_ + extent.offset, extent.size};
    std::array<std::byte, fingerprint_sample_bytes> sample{};
    const auto taken = std::span(sample).first(std::min<std::uint64_t>(sample.size(), extent.size));
    if (auto r = read_at(file.descriptor_, extent.offset, taken); !r) {
      return in_file(path, r.error());
    }
    file.fingerprint_ = mixed(file.fingerprint_, taken);
  }
  return file;
}

gguf_file::gguf_file(gguf_file&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)),
      mapping_(std::exchange(other.mapping_, nullptr)), size_(std::exchange(other.size_, 0)),
      version_(other.version_), alignment_(other.alignment_), fingerprint_(other.fingerprint_),
      header_(std::move(other.header_)), metadata_(std::move(other.metadata_)),
      tensors_(std::move(other.tensors_)), index_by_name_(std::move(other.index_by_name_)) {}

gguf_file& gguf_file::operator=(gguf_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(mapping_, other.mapping_);
  std::swap(size_, other.size_);
  std::swap(version_, other.version_);
  std::swap(alignment_, other.alignment_);
  std::swap(fingerprint_, other.fingerprint_);
  std::swap(header_, other.header_);
  std::swap(metadata_, other.metadata_);
  std::swap(tensors_, other.tensors_);
  std::swap(index_by_name_, other.index_by_name_);
  return *this;
}

gguf_file::~gguf_file() {
  if (mapping_ != nullptr) {
    ::munmap(const_cast<std::byte*>(mapping_), size_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
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
result<std::uint32_t> gguf_file::get_u32(std::string_view key, std::uint32_t otherwise) const {
  return has(key) ? get_u32(key) : result<std::uint32_t>(otherwise);
}
result<std::uint64_t> gguf_file::get_u64(std::string_view key) const {
  return number<std::uint64_t>(key, "an integer that fits 64 unsigned bits",
                               integer<std::uint64_t>);
}
result<std::uint64_t> gguf_file::get_u64(std::string_view key, std::uint64_t otherwise) const {
  return has(key) ? get_u64(key) : result<std::uint64_t>(otherwise);
}
result<float> gguf_file::get_f32(std::string_view key) const {
  return number<float>(key, "a floating-point number", real);
}
result<float> gguf_file::get_f32(std::string_view key, float otherwise) const {
  return has(key) ? get_f32(key) : result<float>(otherwise);
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
result<bool> gguf_file::get_bool(std::string_view key, bool otherwise) const {
  return has(key) ? get_bool(key) : result<bool>(otherwise);
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
  for (std::uint64_t i = 0; i < found->count;
       ++i) { // lengths were checked when the file was opened
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
result<std::string> gguf_file::get_string(std::string_view key, std::string_view otherwise) const {
  return has(key) ? get_string(key) : result<std::string>(std::string(otherwise));
}
result<std::vector<std::string>> gguf_file::get_strings(std::string_view key) const {
  return strings_of(key, /*is_array=*/true);
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
    return fail(errc::not_found, "{}: no tensor '{}'", path_.string(), name);
  }
  const auto& tensor = tensors_[it->second];
  if (first > tensor.rows() || count > tensor.rows() - first ||
      out.size() != count * tensor.row_bytes()) {
    return fail(errc::invalid_value, "rows {} + {} of '{}' ({} rows of {} bytes) into {} bytes",
                first, count, name, tensor.rows(), tensor.row_bytes(), out.size());
  }
  const auto start = static_cast<std::uint64_t>(tensor.bytes.data() - mapping_);
  if (auto r = read_at(descriptor_, start + first * tensor.row_bytes(), out); !r) {
    return fail(r.error().code, "{}: tensor '{}': {}", path_.string(), name, r.error().message);
  }
  return {};
}

} // namespace baton::model
