// Messages to frames and back: the only user of FlatBuffers, and the only verifier.
//
// A message has three parts: envelope, body, and for activations a raw payload (else empty). They
// travel in one packet (packet.hpp). The envelope is verified and checked (version, incarnations,
// sequence) before a byte of the body is read.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <cstdint>

namespace baton {

inline constexpr std::uint16_t protocol_version = 1;

// Numbers are on the wire, in the order of `message`'s alternatives from 1: additive only.
enum class message_kind : std::uint16_t {};
message_kind kind_of(const message& m) noexcept;
std::string_view
name_of(message_kind kind) noexcept; // "micro_batch"; "unknown" for an invalid number

struct envelope {
  std::uint16_t version = protocol_version;
  message_kind kind{};
  process_id source;
  incarnation_id source_incarnation;
  process_id target;
  incarnation_id target_incarnation; // none: any incarnation of the target (only hello)
  actor_id source_actor;
  actor_id target_actor;
  std::uint64_t correlation = 0;
  std::uint64_t sequence = 0; // of the sender's messages to this peer, from 1 without gaps
  friend bool operator==(const envelope&, const envelope&) = default;
};

// Bytes on the bus. Each part owns its memory through `payload::owner` and is 16-byte aligned.
struct frames {
  payload head; // Envelope
  payload body; // the table of the envelope's kind
  payload bulk; // raw; empty for most
  std::size_t size_bytes() const noexcept {
    return head.size_bytes + body.size_bytes + bulk.size_bytes;
  }
};

// Data messages need link credit, control messages never do (otherwise the link could deadlock).
bool needs_credit(message_kind kind) noexcept;

// `e.kind` is set from the message. Never fails: a message beyond schema/limits.hpp is a broken
// invariant, so API servers call check_limits on clients' input.
frames encode(envelope e, const message& m);

// Errors: bad_frame (does not verify, unknown kind, sizes out of bounds), version_mismatch.
result<envelope> decode_envelope(const payload& head);
// The same for any version, to explain to a peer why its version is refused. Errors: bad_frame.
result<envelope> decode_foreign_envelope(const payload& head);
// The activations of a micro_batch refer to `bulk`; they are copied only if it is not 64-byte
// aligned. Errors: bad_frame.
result<message> decode_body(const envelope& e, const payload& body, const payload& bulk);

} // namespace baton
