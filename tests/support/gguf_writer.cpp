#include "tests/support/gguf_writer.hpp"

#include <algorithm>
#include <fstream>

namespace baton::testing {
namespace {

// Value kinds of the GGUF specification.
constexpr std::uint32_t kind_u32 = 4;
constexpr std::uint32_t kind_i32 = 5;
constexpr std::uint32_t kind_f32 = 6;
constexpr std::uint32_t kind_bool = 7;
constexpr std::uint32_t kind_string = 8;
constexpr std::uint32_t kind_array = 9;
constexpr std::uint32_t kind_u64 = 10;

template <class T>
byte_buffer array_of(std::uint32_t kind, std::span<const T> values) {
  byte_buffer payload;
  payload.put(kind).put(std::uint64_t{values.size()}).put_bytes(std::as_bytes(values));
  return payload;
}

} // namespace

byte_buffer& byte_buffer::put_bytes(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return *this;
}

byte_buffer& byte_buffer::put_string(std::string_view text) {
  return put(std::uint64_t{text.size()}).put_bytes(std::as_bytes(std::span(text)));
}

byte_buffer& byte_buffer::pad_to(std::size_t alignment) {
  bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
  return *this;
}

gguf_writer& gguf_writer::set_u32(std::string_view key, std::uint32_t value) {
  return set_raw(key, kind_u32, byte_buffer().put(value));
}
gguf_writer& gguf_writer::set_u64(std::string_view key, std::uint64_t value) {
  return set_raw(key, kind_u64, byte_buffer().put(value));
}
gguf_writer& gguf_writer::set_i32(std::string_view key, std::int32_t value) {
  return set_raw(key, kind_i32, byte_buffer().put(value));
}
gguf_writer& gguf_writer::set_f32(std::string_view key, float value) {
  return set_raw(key, kind_f32, byte_buffer().put(value));
}
gguf_writer& gguf_writer::set_bool(std::string_view key, bool value) {
  return set_raw(key, kind_bool, byte_buffer().put(static_cast<std::uint8_t>(value)));
}
gguf_writer& gguf_writer::set_string(std::string_view key, std::string_view value) {
  return set_raw(key, kind_string, byte_buffer().put_string(value));
}
gguf_writer& gguf_writer::set_strings(std::string_view key, std::span<const std::string> values) {
  byte_buffer payload;
  payload.put(kind_string).put(std::uint64_t{values.size()});
  for (const auto& value : values) {
    payload.put_string(value);
  }
  return set_raw(key, kind_array, payload);
}
gguf_writer& gguf_writer::set_i32s(std::string_view key, std::span<const std::int32_t> values) {
  return set_raw(key, kind_array, array_of(kind_i32, values));
}
gguf_writer& gguf_writer::set_f32s(std::string_view key, std::span<const float> values) {
  return set_raw(key, kind_array, array_of(kind_f32, values));
}

gguf_writer& gguf_writer::set_raw(std::string_view key, std::uint32_t kind,
                                  const byte_buffer& payload) {
  const auto it = std::ranges::find(entries_, key, &entry::key);
  if (it == entries_.end()) {
    return add_raw(key, kind, payload);
  }
  it->kind = kind;
  it->payload = payload.bytes();
  return *this;
}

gguf_writer& gguf_writer::add_raw(std::string_view key, std::uint32_t kind,
                                  const byte_buffer& payload) {
  entries_.push_back({std::string(key), kind, payload.bytes()});
  return *this;
}

gguf_writer& gguf_writer::erase(std::string_view key) {
  std::erase_if(entries_, [&](const entry& e) { return e.key == key; });
  return *this;
}

gguf_writer& gguf_writer::alignment(std::uint32_t bytes) {
  alignment_ = bytes;
  return set_u32("general.alignment", bytes);
}

gguf_writer& gguf_writer::add_tensor(std::string_view name, model::tensor_type type,
                                     std::vector<std::uint64_t> shape,
                                     std::span<const float> values) {
  std::uint64_t elements = 1;
  for (const auto size : shape) {
    elements *= size;
  }
  ENSURE(elements == values.size(), "tensor '{}': {} values for [{}]", name, values.size(),
         fmt::join(shape, ", "));
  ENSURE(shape[0] % model::tensor_type_traits(type).block_elements == 0,
         "tensor '{}': rows of {} are not whole blocks", name, shape[0]);
  return add_tensor_bytes(name, static_cast<std::uint32_t>(type), std::move(shape),
                          quantize(type, values));
}

gguf_writer& gguf_writer::add_tensor_bytes(std::string_view name, std::uint32_t type_number,
                                           std::vector<std::uint64_t> shape,
                                           std::vector<std::byte> bytes,
                                           std::optional<std::uint64_t> offset) {
  tensors_.push_back({std::string(name), type_number, std::move(shape), std::move(bytes), offset});
  return *this;
}

gguf_writer& gguf_writer::erase_tensor(std::string_view name) {
  std::erase_if(tensors_, [&](const tensor& t) { return t.name == name; });
  return *this;
}

std::vector<gguf_writer> gguf_writer::split(std::uint32_t count) const {
  constexpr std::uint32_t kind_u16 = 2;
  const auto first_of = [&](std::size_t part) {
    return tensors_.begin() + static_cast<std::ptrdiff_t>(tensors_.size() * part / count);
  };
  std::vector<gguf_writer> parts;
  for (std::uint16_t i = 0; i < count; ++i) {
    gguf_writer part(version_);
    part.alignment_ = alignment_;
    if (i == 0) {
      part.entries_ = entries_;
    }
    part.set_raw("split.no", kind_u16, byte_buffer().put(i));
    part.set_raw("split.count", kind_u16, byte_buffer().put(static_cast<std::uint16_t>(count)));
    part.set_i32("split.tensors.count", static_cast<std::int32_t>(tensors_.size()));
    part.tensors_.assign(first_of(i), first_of(i + 1U));
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::byte> gguf_writer::bytes() const {
  byte_buffer out;
  constexpr std::uint32_t magic = 0x46554747; // "GGUF"
  out.put(magic).put(version_);
  out.put(std::uint64_t{tensors_.size()}).put(std::uint64_t{entries_.size()});
  for (const auto& e : entries_) {
    out.put_string(e.key).put(e.kind).put_bytes(e.payload);
  }
  byte_buffer data;
  for (const auto& t : tensors_) {
    data.pad_to(alignment_);
    out.put_string(t.name).put(static_cast<std::uint32_t>(t.shape.size()));
    for (const auto size : t.shape) {
      out.put(size);
    }
    out.put(t.type).put(t.offset.value_or(data.bytes().size()));
    data.put_bytes(t.bytes);
  }
  return out.pad_to(alignment_).put_bytes(data.bytes()).bytes();
}

result<void> gguf_writer::write(const std::filesystem::path& path) const {
  return write_file(path, bytes());
}

result<void> write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.flush();
  return out ? result<void>() : fail(errc::io_failed, "cannot write {}", path.string());
}

} // namespace baton::testing
