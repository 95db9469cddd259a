#include "cluster/models/triton/protobuf_reader.hpp"

#include <fmt/format.h>

#include <utility>

namespace baton::cluster {
namespace {

constexpr std::size_t name_bytes_max = 64 << 10;   // of one name that is read
constexpr std::size_t names_bytes_max = 64u << 20; // of all names
// Large graphs have tens of thousands of nodes and constants.
constexpr std::size_t fields_max = 1u << 20;
constexpr std::uint64_t near_bytes = 4 << 10;

} // namespace

std::optional<protobuf_reader::field> protobuf_reader::next(std::uint64_t end) {
  if (is_broken_ || at_ >= end)
    return std::nullopt;
  if (++fields_ > fields_max) {
    refuse(fmt::format("it has more than {} fields", fields_max));
    return std::nullopt;
  }
  const auto tag = varint(end);
  field f;
  f.number = tag >> 3;
  f.type = wire(tag & 7);
  if (f.number == 0) // as in a file of zeros
    is_broken_ = true;
  if (f.type == wire::varint)
    f.value = varint(end);
  else if (f.type == wire::bytes)
    f.end = varint(end);
  else if (f.type == wire::fixed64 || f.type == wire::fixed32)
    f.end = f.type == wire::fixed64 ? 8 : 4;
  else
    is_broken_ = true;
  if (f.type != wire::varint) {
    is_broken_ = is_broken_ || f.end > end - at_;
    f.end += at_;
  }
  return is_broken_ ? std::nullopt : std::optional(f);
}

void protobuf_reader::leave(const field& f) {
  if (f.type == wire::varint || f.end == at_ || is_broken_)
    return;
  if (f.end - at_ <= near_bytes) // a seek discards the read-ahead buffer
    in_.ignore(static_cast<std::streamsize>(f.end - at_));
  else
    in_.seekg(static_cast<std::streamoff>(f.end));
  at_ = f.end;
  is_broken_ = !in_;
}

std::string protobuf_reader::name(const field& f) {
  const auto size = f.end - at_;
  names_bytes_ += size;
  if (size > name_bytes_max || names_bytes_ > names_bytes_max) {
    refuse(fmt::format("a name in it has more than {} bytes, or all have more than {}",
                       name_bytes_max, names_bytes_max));
    return {};
  }
  std::string out(size, '\0');
  in_.read(out.data(), static_cast<std::streamsize>(out.size()));
  at_ = f.end;
  is_broken_ = is_broken_ || !in_;
  return out;
}

void protobuf_reader::refuse(std::string why) {
  if (!std::exchange(is_broken_, true))
    why_ = std::move(why);
}

std::uint64_t protobuf_reader::varint(std::uint64_t end) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = at_ < end ? in_.get() : std::char_traits<char>::eof();
    if (byte == std::char_traits<char>::eof())
      break;
    ++at_;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0)
      return value;
  }
  is_broken_ = true;
  return 0;
}

} // namespace baton::cluster
