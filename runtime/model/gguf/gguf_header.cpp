#include "runtime/model/gguf/gguf_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

namespace baton::model {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in place");

constexpr std::uint64_t read_step_bytes = 256U
                                          << 10U; // most headers with a vocabulary are 1-10 MiB

std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t c = 0;
  return __builtin_mul_overflow(a, b, &c) ? std::nullopt : std::optional(c);
}

bool is_printable(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7F; });
}

} // namespace

std::string_view name_of(value_kind kind) noexcept {
  constexpr std::array<std::string_view, 13> names = {"u8",  "i8",  "u16",  "i16",    "u32",
                                                      "i32", "f32", "bool", "string", "array",
                                                      "u64", "i64", "f64"};
  const auto number = static_cast<std::uint32_t>(kind);
  return number < names.size() ? names[number] : "unknown";
}

std::optional<std::uint64_t> size_of(value_kind kind) noexcept {
  switch (kind) {
  case value_kind::u8:
  case value_kind::i8:
  case value_kind::boolean:
    return 1;
  case value_kind::u16:
  case value_kind::i16:
    return 2;
  case value_kind::u32:
  case value_kind::i32:
  case value_kind::f32:
    return 4;
  case value_kind::u64:
  case value_kind::i64:
  case value_kind::f64:
    return 8;
  case value_kind::string:
  case value_kind::array:
    break;
  }
  return std::nullopt;
}

// Ensures that header_ holds the next `bytes` bytes.
result<void> gguf_header_reader::need(std::uint64_t bytes, std::string_view what) {
  if (bytes > file_.size_bytes() - position_) {
    return fail(errc::bad_model_file,
                "the file ends inside {}: {} bytes needed at offset {}, the file has {}", what,
                bytes, position_, file_.size_bytes());
  }
  const std::uint64_t end = position_ + bytes;
  if (end > gguf_limits::header_bytes_max) {
    return fail(errc::bad_model_file, "{} ends at offset {}, beyond the header limit of {} bytes",
                what, end, gguf_limits::header_bytes_max);
  }
  const std::uint64_t held = file_.header_.size();
  if (end <= held) {
    return {};
  }
  const std::uint64_t there = file_.data_.size_bytes();
  if (end > there) {
    return fail(errc::not_ready, "{} ends at offset {}, and {} bytes of the file are here", what,
                end, there);
  }
  const std::uint64_t wanted = std::min(there, std::max(end, held + read_step_bytes));
  file_.header_.resize(wanted);
  return file_.data_.read_at(held, std::span(file_.header_).subspan(held));
}

template <class T>
result<T> gguf_header_reader::number(std::string_view what) {
  if (auto r = need(sizeof(T), what); !r) {
    return r.error();
  }
  T value;
  std::memcpy(&value, file_.header_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return value;
}

// A length and that many bytes; the view is valid until the next read.
result<std::string_view> gguf_header_reader::text(std::uint64_t bytes_max, std::string_view what) {
  const auto length = number<std::uint64_t>(what);
  if (!length) {
    return length.error();
  }
  if (*length > bytes_max) {
    return fail(errc::bad_model_file, "{} at offset {} claims {} bytes, the limit is {}", what,
                position_ - sizeof(std::uint64_t), *length, bytes_max);
  }
  if (auto r = need(*length, what); !r) {
    return r.error();
  }
  const auto* start = reinterpret_cast<const char*>(file_.header_.data() + position_);
  position_ += *length;
  return std::string_view(start, *length);
}

result<std::string> gguf_header_reader::name(std::uint64_t bytes_max, std::string_view what) {
  const std::uint64_t start = position_;
  const auto view = text(bytes_max, what);
  if (!view) {
    return view.error();
  }
  if (view->empty() || !is_printable(*view)) {
    return fail(errc::bad_model_file, "{} at offset {} is empty or not printable ASCII", what,
                start);
  }
  return std::string(*view);
}

// Checks the value at the position and records its location. Arrays of arrays are refused: no
// published key has one, and without them the depth needs no bound.
result<void> gguf_header_reader::skip_value(gguf_file::entry& entry, const std::string& key) {
  const auto what = fmt::format("the value of key '{}'", key);
  auto kind = static_cast<value_kind>(entry.kind);
  if (kind == value_kind::array) {
    const auto element = number<std::uint32_t>(what);
    if (!element) {
      return element.error();
    }
    const auto count = number<std::uint64_t>(what);
    if (!count) {
      return count.error();
    }
    kind = static_cast<value_kind>(*element);
    entry = {.kind = *element, .is_array = true, .count = *count, .offset = 0};
    if (kind == value_kind::array) {
      return fail(errc::bad_model_file, "key '{}' is an array of arrays", key);
    }
    if (*count > gguf_limits::array_count_max) {
      return fail(errc::bad_model_file, "key '{}' claims {} elements, the limit is {}", key, *count,
                  gguf_limits::array_count_max);
    }
  }
  entry.offset = position_;
  if (const auto size = size_of(kind)) {
    const std::uint64_t bytes = *size * entry.count; // under 2^27: both factors are bounded
    if (auto r = need(bytes, what); !r) {
      return r.error();
    }
    position_ += bytes;
    return {};
  }
  if (kind != value_kind::string) {
    return fail(errc::bad_model_file, "key '{}' has the unknown value kind {}", key, entry.kind);
  }
  for (std::uint64_t i = 0; i < entry.count; ++i) {
    if (auto s = text(gguf_limits::string_bytes_max, what); !s) {
      return s.error();
    }
  }
  return {};
}

result<void> gguf_header_reader::read_magic() {
  const auto magic = number<std::uint32_t>("the magic number");
  if (!magic) {
    return magic.error();
  }
  constexpr std::uint32_t gguf_magic = 0x46554747; // "GGUF"
  if (*magic != gguf_magic) {
    return fail(errc::bad_model_file, "not a GGUF file: it starts with {:#010x}, not 'GGUF'",
                *magic);
  }
  const auto version = number<std::uint32_t>("the version");
  if (!version) {
    return version.error();
  }
  if ((*version & 0xFFFFU) == 0 && *version != 0) {
    return fail(errc::unsupported_model, "a big-endian GGUF file: convert it to little-endian");
  }
  if (*version != 2 && *version != 3) {
    return fail(errc::unsupported_model, "GGUF version {}: this build reads 2 and 3", *version);
  }
  file_.version_ = *version;
  return {};
}

result<void> gguf_header_reader::read_entry() {
  auto key = name(gguf_limits::key_bytes_max, "a metadata key");
  if (!key) {
    return key.error();
  }
  const auto kind = number<std::uint32_t>("a value's kind");
  if (!kind) {
    return kind.error();
  }
  gguf_file::entry entry{.kind = *kind, .is_array = false, .count = 1, .offset = 0};
  if (auto r = skip_value(entry, *key); !r) {
    return r;
  }
  if (!file_.metadata_.emplace(*key, entry).second) {
    return fail(errc::bad_model_file, "key '{}' appears twice", *key);
  }
  return {};
}

result<void> gguf_header_reader::read_alignment() {
  const auto alignment = file_.get_u32("general.alignment", file_.alignment_);
  if (!alignment) {
    return alignment.error();
  }
  if (!std::has_single_bit(*alignment) || *alignment < gguf_limits::alignment_min ||
      *alignment > gguf_limits::alignment_max) {
    return fail(errc::bad_model_file, "general.alignment is {}, not a power of two in [{}, {}]",
                *alignment, gguf_limits::alignment_min, gguf_limits::alignment_max);
  }
  file_.alignment_ = *alignment;
  return {};
}

result<void> gguf_header_reader::read_shape(tensor_view& tensor) {
  const auto what = fmt::format("the shape of tensor '{}'", tensor.name);
  const auto dimensions = number<std::uint32_t>(what);
  if (!dimensions) {
    return dimensions.error();
  }
  if (*dimensions == 0 || *dimensions > gguf_limits::dimensions_max) {
    return fail(errc::bad_model_file, "tensor '{}' has {} dimensions, not 1 to {}", tensor.name,
                *dimensions, gguf_limits::dimensions_max);
  }
  for (std::uint32_t i = 0; i < *dimensions; ++i) {
    const auto size = number<std::uint64_t>(what);
    if (!size) {
      return size.error();
    }
    if (*size == 0) {
      return fail(errc::bad_model_file, "tensor '{}' has a dimension of size 0", tensor.name);
    }
    tensor.shape.push_back(*size);
  }
  return {};
}

result<void> gguf_header_reader::read_tensor() {
  auto tensor_name = name(gguf_limits::tensor_name_bytes_max, "a tensor name");
  if (!tensor_name) {
    return tensor_name.error();
  }
  tensor_view tensor{.name = *tensor_name, .type = tensor_type::f32, .shape = {}, .bytes = {}};
  if (auto r = read_shape(tensor); !r) {
    return r;
  }
  const auto type = number<std::uint32_t>("a tensor's type");
  if (!type) {
    return type.error();
  }
  const auto offset = number<std::uint64_t>("a tensor's offset");
  if (!offset) {
    return offset.error();
  }
  const auto known = tensor_type_from(*type);
  if (!known) {
    return fail(errc::unsupported_model, "tensor '{}' has the unknown type {}", tensor.name, *type);
  }
  tensor.type = *known;
  const auto& traits = tensor_type_traits(*known);
  if (tensor.columns() % traits.block_elements != 0) {
    return fail(errc::bad_model_file,
                "tensor '{}' has rows of {} elements, not whole {} blocks of {}", tensor.name,
                tensor.columns(), traits.name, traits.block_elements);
  }
  std::optional<std::uint64_t> elements = 1;
  for (const std::uint64_t size : tensor.shape) {
    elements = elements ? product(*elements, size) : elements;
  }
  const auto bytes =
      elements ? product(*elements / traits.block_elements, traits.block_bytes) : std::nullopt;
  if (!bytes) {
    return fail(errc::bad_model_file, "the size of tensor '{}' [{}] overflows 64 bits", tensor.name,
                fmt::join(tensor.shape, ", "));
  }
  if (!file_.index_by_name_.emplace(tensor.name, file_.tensors_.size()).second) {
    return fail(errc::bad_model_file, "tensor '{}' appears twice", tensor.name);
  }
  extents_.push_back({.offset = *offset, .size = *bytes});
  file_.tensors_.push_back(std::move(tensor));
  return {};
}

// Converts offsets relative to the data section into offsets in the file.
result<void> gguf_header_reader::locate_tensors() {
  const std::uint64_t mask = file_.alignment_ - 1U;
  const std::uint64_t data_start = (position_ + mask) & ~mask; // position_ <= header_bytes_max
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    auto& placed = extents_[i];
    const auto& tensor_name = file_.tensors_[i].name;
    if ((placed.offset & mask) != 0) {
      return fail(errc::bad_model_file, "tensor '{}' lies at offset {}, not a multiple of {}",
                  tensor_name, placed.offset, file_.alignment_);
    }
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    if (__builtin_add_overflow(data_start, placed.offset, &start) ||
        __builtin_add_overflow(start, placed.size, &end) || end > file_.size_bytes()) {
      return fail(errc::bad_model_file,
                  "tensor '{}' ({} bytes at data offset {}, data starts at {}) lies beyond the end "
                  "of the file of {} bytes",
                  tensor_name, placed.size, placed.offset, data_start, file_.size_bytes());
    }
    placed.offset = start;
  }
  return check_overlaps();
}

result<void> gguf_header_reader::check_overlaps() const {
  std::vector<std::size_t> order(extents_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return extents_[i].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto& before = extents_[order[i - 1]];
    if (before.offset + before.size > extents_[order[i]].offset) {
      return fail(errc::bad_model_file, "tensors '{}' and '{}' overlap",
                  file_.tensors_[order[i - 1]].name, file_.tensors_[order[i]].name);
    }
  }
  return {};
}

result<void> gguf_header_reader::read() {
  if (auto r = read_magic(); !r) {
    return r;
  }
  const auto tensor_count = number<std::uint64_t>("the tensor count");
  if (!tensor_count) {
    return tensor_count.error();
  }
  const auto key_count = number<std::uint64_t>("the key count");
  if (!key_count) {
    return key_count.error();
  }
  if (*tensor_count > gguf_limits::tensor_count_max ||
      *key_count > gguf_limits::metadata_count_max) {
    return fail(errc::bad_model_file, "{} tensors and {} keys claimed, the limits are {} and {}",
                *tensor_count, *key_count, gguf_limits::tensor_count_max,
                gguf_limits::metadata_count_max);
  }
  for (std::uint64_t i = 0; i < *key_count; ++i) {
    if (auto r = read_entry(); !r) {
      return r;
    }
  }
  if (auto r = read_alignment(); !r) {
    return r;
  }
  for (std::uint64_t i = 0; i < *tensor_count; ++i) {
    if (auto r = read_tensor(); !r) {
      return r;
    }
  }
  file_.header_.resize(position_);
  file_.header_.shrink_to_fit();
  return locate_tensors();
}

} // namespace baton::model
