#include "schema/packet.hpp"

#include "schema/codec/codec_parts.hpp"

#include <xxhash.h>

#include <bit>
#include <cstddef>
#include <cstring>

namespace baton {
namespace {

static_assert(std::endian::native == std::endian::little);

struct prefix {
  std::uint32_t head_bytes = 0;
  std::uint32_t body_bytes = 0;
  std::uint32_t bulk_bytes = 0;
  std::uint32_t checksum = 0;
};
constexpr std::size_t table_alignment = 16;
constexpr std::size_t bulk_alignment = 64;

constexpr std::size_t aligned(std::size_t at, std::size_t to) {
  return (at + to - 1) / to * to;
}

struct part_offsets {
  std::size_t head, body, bulk, end;
};

constexpr part_offsets part_offsets_of(std::size_t head, std::size_t body, std::size_t bulk) {
  part_offsets p{};
  p.head = sizeof(prefix);
  p.body = aligned(p.head + head, table_alignment);
  p.bulk = aligned(p.body + body, bulk == 0 ? table_alignment : bulk_alignment);
  p.end = p.bulk + bulk;
  return p;
}

part_offsets part_offsets_of(const frames& f) {
  return part_offsets_of(f.head.size_bytes, f.body.size_bytes, f.bulk.size_bytes);
}

// Padding is zero, so no stray memory is sent.
void put(std::byte* to, std::size_t at, std::size_t next, const payload& part) {
  if (part.size_bytes > 0)
    std::memcpy(to + at, part.data, part.size_bytes);
  std::memset(to + at + part.size_bytes, 0, next - at - part.size_bytes);
}

// Checksum of the bytes behind the prefix, seeded with the sizes in it.
std::uint32_t checksum_of(const prefix& sizes, const void* data, std::size_t size_bytes) {
  const auto seed = (std::uint64_t{sizes.head_bytes} << 32 | sizes.body_bytes) ^
                    (std::uint64_t{sizes.bulk_bytes} << 16);
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits_withSeed(
      static_cast<const std::byte*>(data) + sizeof(prefix), size_bytes - sizeof(prefix), seed));
  return hash == 0 ? 1 : hash;
}

} // namespace

std::size_t packed_bytes(const frames& f) noexcept {
  return part_offsets_of(f).end;
}

void pack(const frames& f, std::byte* to) noexcept {
  const auto at = part_offsets_of(f);
  const prefix sizes{static_cast<std::uint32_t>(f.head.size_bytes),
                     static_cast<std::uint32_t>(f.body.size_bytes),
                     static_cast<std::uint32_t>(f.bulk.size_bytes), 0};
  std::memcpy(to, &sizes, sizeof(sizes));
  put(to, at.head, at.body, f.head);
  put(to, at.body, at.bulk, f.body);
  put(to, at.bulk, at.end, f.bulk);
}

void seal(std::byte* packet, std::size_t size_bytes) noexcept {
  prefix sizes;
  std::memcpy(&sizes, packet, sizeof(sizes));
  const auto checksum = checksum_of(sizes, packet, size_bytes);
  std::memcpy(packet + offsetof(prefix, checksum), &checksum, sizeof(checksum));
}

result<frames> unpack(const void* data, std::size_t size_bytes) {
  prefix sizes;
  if (size_bytes < sizeof(sizes))
    return fail(errc::bad_frame, "a packet of {} bytes", size_bytes);
  std::memcpy(&sizes, data, sizeof(sizes));
  const auto at = part_offsets_of(sizes.head_bytes, sizes.body_bytes, sizes.bulk_bytes);
  if (at.end != size_bytes)
    return fail(errc::bad_frame, "a packet of {} bytes says that it has {}", size_bytes, at.end);
  if (sizes.checksum != 0 && sizes.checksum != checksum_of(sizes, data, size_bytes))
    return fail(errc::bad_frame, "a packet of {} bytes was damaged on its way", size_bytes);
  const auto own = codec::aligned_copy({nullptr, static_cast<const std::byte*>(data), size_bytes},
                                       bulk_alignment);
  const auto part = [&](std::size_t begin, std::size_t bytes) {
    return bytes == 0 ? payload{} : payload{own.owner, own.data + begin, bytes};
  };
  return frames{part(at.head, sizes.head_bytes), part(at.body, sizes.body_bytes),
                part(at.bulk, sizes.bulk_bytes)};
}

} // namespace baton
