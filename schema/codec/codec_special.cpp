// Messages whose tables are not field for field their structs.
#include "schema/codec/codec_parts.hpp"

#include <algorithm>

namespace baton::codec {

offset<wire::Cancel> put(writer& out, const cancel& m) {
  auto reason = out.table(m.reason);
  return wire::CreateCancel(out.buffer, m.ticket.value, m.choice.has_value(), m.choice.value_or(0),
                            static_cast<wire::CancelReason>(m.why), m.tokens_kept, reason);
}

void get(reader& in, const wire::Cancel& from, cancel& to) {
  to.ticket = {from.ticket()};
  if (from.has_choice())
    to.choice = from.choice();
  in.one_of(from.why(), to.why, cancel_reason::client_gone, cancel_reason::client_lost,
            "cancel.why");
  to.tokens_kept = from.tokens_kept();
  in.table(from.reason(), to.reason);
}

// All pieces in one vector: a table for each would take more space than the text.
offset<wire::Tokenized> put(writer& out, const tokenized& m) {
  auto ids = out.numbers(m.ids, limits::ids_max);
  std::string joined;
  std::vector<std::uint32_t> ends;
  for (const auto& piece : m.pieces) {
    joined += piece;
    ends.push_back(static_cast<std::uint32_t>(joined.size()));
  }
  ENSURE(joined.size() <= limits::prompt_bytes_max, "pieces of {} bytes", joined.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(joined.data());
  auto piece_bytes = joined.empty() ? 0 : out.buffer.CreateVector(bytes, joined.size());
  auto piece_ends = out.numbers(ends, limits::ids_max);
  auto failure = out.table(m.failure);
  return wire::CreateTokenized(out.buffer, m.request, ids, piece_bytes, piece_ends, m.max_model_len,
                               failure);
}

void get(reader& in, const wire::Tokenized& from, tokenized& to) {
  to.request = from.request();
  in.numbers(from.ids(), to.ids, limits::ids_max, "tokenized.ids");
  std::string joined;
  std::vector<std::uint32_t> ends;
  in.bytes(from.piece_bytes(), joined, limits::prompt_bytes_max, "tokenized.piece_bytes");
  in.numbers(from.piece_ends(), ends, limits::ids_max, "tokenized.piece_ends");
  std::uint32_t begin = 0;
  for (const auto end : ends) {
    if (end < begin || end > joined.size())
      return in.refuse(fmt::format("a piece ends at {} of {}", end, joined.size()));
    to.pieces.push_back(joined.substr(begin, end - begin));
    begin = end;
  }
  to.max_model_len = from.context_max();
  in.table(from.failure(), to.failure);
}

offset<wire::Generation> put(writer& out, const generation& m) {
  ENSURE(m.without.size() <= limits::nodes_max, "{} nodes", m.without.size());
  std::vector<offset<flatbuffers::String>> names;
  for (const auto& name : m.without)
    names.push_back(out.text(name, limits::name_bytes_max));
  const auto without = names.empty() ? 0 : out.buffer.CreateVector(names);
  return wire::CreateGeneration(out.buffer, m.number, m.stages, without, m.width);
}

void get(reader& in, const wire::Generation& from, generation& to) {
  to.number = from.number();
  in.at_most(from.stages(), limits::stages_max, "generation.stages");
  to.stages = from.stages();
  if (from.width() == 0)
    return in.refuse("generation.width is 0");
  in.at_most(from.width(), limits::stages_max / std::max(from.stages(), 1u), "generation.width");
  to.width = from.width();
  if (from.without() == nullptr)
    return;
  in.at_most(from.without()->size(), limits::nodes_max, "generation.without");
  for (flatbuffers::uoffset_t i = 0; i < from.without()->size() && !in.refusal(); ++i) {
    in.text(from.without()->Get(i), to.without.emplace_back(), limits::name_bytes_max,
            "generation.without");
    if (to.without.back()
            .empty()) // an empty text is left out of tables, so an empty name is invalid
      in.refuse("generation.without has an empty name");
  }
}

offset<wire::Generations> put(writer& out, const generations& m) {
  const auto serving = put(out, m.serving);
  const auto coming = out.table(m.coming);
  return wire::CreateGenerations(out.buffer, serving, coming, m.pipeline);
}

void get(reader& in, const wire::Generations& from, generations& to) {
  in.table(from.serving(), to.serving);
  in.table(from.coming(), to.coming);
  in.at_most(from.pipeline(), pipelines_max - 1, "generations.pipeline");
  to.pipeline = from.pipeline();
}

} // namespace baton::codec
