// The first frame of each message: checked before a byte of the body is read.
#include "schema/codec/codec_parts.hpp"

namespace baton {

namespace codec {

payload encode_envelope(const envelope& e) {
  writer out;
  auto root = wire::CreateEnvelope(out.buffer, e.version, static_cast<std::uint16_t>(e.kind),
                                   e.source.value, e.source_incarnation.value, e.target.value,
                                   e.target_incarnation.value, e.source_actor.value,
                                   e.target_actor.value, e.correlation, e.sequence);
  return finish(out, root, "BTEV");
}

} // namespace codec

result<envelope> decode_envelope(const payload& head) {
  auto e = decode_foreign_envelope(head);
  if (!e)
    return e;
  if (e->version != protocol_version)
    return fail(errc::version_mismatch, "the peer speaks version {} of the protocol, we speak {}",
                e->version, protocol_version);
  if (e->kind == message_kind{} || static_cast<std::size_t>(e->kind) > std::variant_size_v<message>)
    return fail(errc::bad_frame, "message kind {} is unknown", static_cast<unsigned>(e->kind));
  return e;
}

result<envelope> decode_foreign_envelope(const payload& head) {
  if (head.data == nullptr || head.size_bytes > limits::head_bytes_max)
    return fail(errc::bad_frame, "envelope of {} bytes", head.size_bytes);
  const auto bytes = codec::aligned_to(head, 16);
  const auto* from = codec::verified_root<wire::Envelope>(bytes, "BTEV");
  if (from == nullptr)
    return fail(errc::bad_frame, "the envelope does not verify");
  return envelope{.version = from->version(),
                  .kind = message_kind{from->kind()},
                  .source = {from->source()},
                  .source_incarnation = {from->source_epoch()},
                  .target = {from->target()},
                  .target_incarnation = {from->target_epoch()},
                  .source_actor = {from->source_actor()},
                  .target_actor = {from->target_actor()},
                  .correlation = from->correlation(),
                  .sequence = from->sequence()};
}

} // namespace baton
