// A message as one contiguous run of bytes: one ZeroMQ frame ("The "The
// packet"). A single frame, because libzmq 4.3.4 aborts the process when a connection fails between
// two. Layout:
//
//   0   u32 sizes of head, body and bulk, checksum; little endian
//   16  head, body: each at a multiple of 16
//       bulk: at a multiple of 64
#pragma once

#include "schema/codec/codec.hpp"

namespace baton {

std::size_t packed_bytes(const frames& f) noexcept;
// Requires: packed_bytes(f) bytes of room at `to`.
void pack(const frames& f, std::byte* to) noexcept;
// Writes the checksum into a packet: the lower half of XXH3 over all other bytes, never 0. The bus
// does, so that corrupted bits never become tokens. Clients' packets have 0: not given.
void seal(std::byte* packet, std::size_t size_bytes) noexcept;
// Copies the packet into memory shared by its three parts and aligned as the codec requires: ZeroMQ
// delivers unaligned slices of its read buffer. Errors: bad_frame (inconsistent sizes or a wrong
// checksum).
result<frames> unpack(const void* data, std::size_t size_bytes);

} // namespace baton
