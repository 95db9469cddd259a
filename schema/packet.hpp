// A message as one run of bytes: what ZeroMQ carries as one frame (docs/protocol.md, "The packet").
// One frame, because libzmq 4.3.4 aborts the process when a connection fails between two.
//
//   0   u32 bytes of head, of body, of bulk, checksum; little endian
//   16  head, body: each at the next multiple of 16
//       bulk: at the next multiple of 64
#pragma once

#include "schema/codec.hpp"

namespace baton {

std::size_t packed_bytes(const frames& f) noexcept;
// Requires: room for packed_bytes(f) at `to`.
void pack(const frames& f, std::byte* to) noexcept;
// Puts the checksum into a packet: the lower half of XXH3 over all else, never 0. The bus does, so
// that no bit that fell over on the way becomes a token; at the door it is 0, not given.
void seal(std::byte* packet, std::size_t size_bytes) noexcept;
// Copies the packet into memory that its three parts share and that is aligned as the codec wants
// it: ZeroMQ hands out unaligned slices of its read buffer. Errors: bad_frame (its sizes do not add
// up, or its checksum is another).
result<frames> unpack(const void* data, std::size_t size_bytes);

} // namespace baton
