// One row per message kind, and the two functions that use the table.
#include "schema/codec/codec.hpp"

#include "schema/codec/codec_parts.hpp"

#include <array>
#include <type_traits>
#include <utility>

namespace baton {

namespace codec {
payload encode_envelope(const envelope& e); // codec_envelope.cpp
} // namespace codec

namespace {

constexpr std::size_t kinds = std::variant_size_v<message>;

struct kind_row {
  std::string_view name;
  bool needs_credit; // data: its bytes fill the receiver's buffers
};

// In the order of `message`, which is the order on the wire.
constexpr std::array<kind_row, kinds> rows{{
    {"reserve", false},
    {"granted", false},
    {"rejected", false},
    {"submit", true},
    {"admit", true},
    {"cancel", false},
    {"micro_batch", true},
    {"sampled", false},
    {"tokens", true},
    {"chunk", true},
    {"tokenize", true},
    {"tokenized", true},
    {"detokenize", true},
    {"detokenized", true},
    {"stage_ready", false},
    {"open_epoch", false},
    {"epoch_opened", false},
    {"hello", false},
    {"hello_ack", false},
    {"heartbeat", false},
    {"credit", false},
    {"status", false},
    {"model_card", false},
    {"load_report", false},
    {"drain", false},
    {"query_status", false},
    {"cluster_status", false},
    {"list_models", false},
    {"models", false},
    {"generate", true},
    {"chunks", true},
    {"resume", false},
    {"change_nodes", false},
    {"nodes_changed", false},
    {"generations", false},
    {"serves", false},
    {"joined", false},
    {"scale_model", false},
    {"remove_node", false},
    {"group_values", false},
    {"infer", true},
    {"inferred", true},
    {"infer_batch", true},
    {"cancel_infer", false},
    {"served_models", false},
    {"change_model", false},
    {"model_changed", false},
    {"model_drained", false},
    {"handler_metrics", false},
    {"load_refused", false},
}};
static_assert(kinds == 50, "a new message needs a row, a table in a .fbs file, and a put/get pair");

// The table above is indexed by kind - 1.
const kind_row* row_for(message_kind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number >= 1 && number <= kinds ? &rows[number - 1] : nullptr;
}

// "BT01" to "BT50": a body cannot be read as another kind's.
std::array<char, 5> identifier_of(std::size_t number) noexcept {
  return {'B', 'T', static_cast<char>('0' + number / 10), static_cast<char>('0' + number % 10),
          '\0'};
}

// The member that travels in the bulk frame; null if this kind has none.
template <class M>
auto bulk_of(M& m) noexcept {
  if constexpr (std::is_same_v<std::remove_const_t<M>, micro_batch>)
    return &m.activations;
  else if constexpr (std::is_same_v<std::remove_const_t<M>, group_values>)
    return &m.values;
  else
    return nullptr;
}

bool fits(const micro_batch& m, std::size_t bulk_bytes) noexcept {
  return bulk_bytes == 0 ||
         (m.rows() != 0 && bulk_bytes % (std::size_t{m.rows()} * sizeof(float)) == 0);
}
bool fits(const group_values&, std::size_t bulk_bytes) noexcept {
  return bulk_bytes % sizeof(float) == 0;
}

template <class W>
W table_of(codec::offset<W>);

template <std::size_t Index>
result<message> decode_as(const payload& body, const payload& bulk) {
  using M = std::variant_alternative_t<Index, message>;
  using W = decltype(table_of(put(std::declval<codec::writer&>(), std::declval<const M&>())));
  constexpr auto name = rows[Index].name;
  const auto* from = codec::verified_root<W>(body, identifier_of(Index + 1).data());
  if (from == nullptr)
    return fail(errc::bad_frame, "the body of a {} does not verify", name);
  M to{};
  codec::reader in(body.size_bytes);
  get(in, *from, to);
  if (in.refusal())
    return fail(errc::bad_frame, "{}: {}", name, *in.refusal());
  if constexpr (!std::is_null_pointer_v<decltype(bulk_of(to))>) {
    if (!fits(to, bulk.size_bytes))
      return fail(errc::bad_frame, "{}: {} bytes of floats, which are no whole rows", name,
                  bulk.size_bytes);
    if (bulk.size_bytes != 0)
      *bulk_of(to) = codec::aligned_to(bulk, 64);
  } else if (bulk.size_bytes != 0) {
    return fail(errc::bad_frame, "a {} has no bulk frame", name);
  }
  return message{std::in_place_index<Index>, std::move(to)};
}

using decoder = result<message> (*)(const payload&, const payload&);

template <std::size_t... Index>
constexpr std::array<decoder, kinds> all_decoders(std::index_sequence<Index...>) {
  return {&decode_as<Index>...};
}

constexpr auto decoders = all_decoders(std::make_index_sequence<kinds>{});

} // namespace

message_kind kind_of(const message& m) noexcept {
  return message_kind{static_cast<std::uint16_t>(m.index() + 1)};
}

std::string_view name_of(message_kind kind) noexcept {
  const auto* row = row_for(kind);
  return row != nullptr ? row->name : "unknown";
}

bool needs_credit(message_kind kind) noexcept {
  const auto* row = row_for(kind);
  return row != nullptr && row->needs_credit;
}

frames encode(envelope e, const message& m) {
  e.kind = kind_of(m);
  frames made;
  made.head = codec::encode_envelope(e);
  std::visit(
      [&](const auto& content) {
        codec::writer out;
        auto root = put(out, content);
        made.body = codec::finish(out, root, identifier_of(m.index() + 1).data());
        if constexpr (!std::is_null_pointer_v<decltype(bulk_of(content))>) {
          made.bulk = *bulk_of(content);
          ENSURE(fits(content, made.bulk.size_bytes), "{} bytes of floats, which are no whole rows",
                 made.bulk.size_bytes);
        }
      },
      m);
  ENSURE(made.body.size_bytes <= limits::body_bytes_max, "a {} of {} bytes", name_of(e.kind),
         made.body.size_bytes);
  return made;
}

result<message> decode_body(const envelope& e, const payload& body, const payload& bulk) {
  const auto number = static_cast<std::size_t>(e.kind);
  if (row_for(e.kind) == nullptr)
    return fail(errc::bad_frame, "message kind {} is unknown", number);
  if (body.data == nullptr || body.size_bytes > limits::body_bytes_max)
    return fail(errc::bad_frame, "a {} of {} bytes", name_of(e.kind), body.size_bytes);
  if (bulk.size_bytes > limits::bulk_bytes_max)
    return fail(errc::bad_frame, "a bulk frame of {} bytes", bulk.size_bytes);
  return decoders[number - 1](codec::aligned_to(body, 16), bulk);
}

} // namespace baton
