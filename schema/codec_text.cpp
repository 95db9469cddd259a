// The tokenizer's small services.
#include "schema/codec_parts.hpp"

namespace baton::codec {

offset<wire::Tokenize> put(writer& out, const tokenize& m) {
  auto input = put_prompt(out, m.input);
  auto tools = out.text(m.tools, limits::prompt_bytes_max);
  auto template_options = put(out, m.template_options);
  return wire::CreateTokenize(out.buffer, m.request, m.gateway.value, input.type, input.table,
                              m.add_generation_prompt, m.parses_special, tools, template_options);
}

void get(reader& in, const wire::Tokenize& from, tokenize& to) {
  to.request = from.request();
  to.gateway = {from.gateway()};
  get_prompt(in, from.input_type(), from.input(), to.input);
  to.add_generation_prompt = from.add_generation_prompt();
  to.parses_special = from.parses_special();
  in.text(from.tools(), to.tools, limits::prompt_bytes_max, "tokenize.tools");
  in.table(from.template_options(), to.template_options);
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
  auto failure = out.optional(m.failure);
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
  in.optional(from.failure(), to.failure);
}

offset<wire::Detokenize> put(writer& out, const detokenize& m) {
  auto ids = out.numbers(m.ids, limits::ids_max);
  return wire::CreateDetokenize(out.buffer, m.request, m.gateway.value, ids);
}

void get(reader& in, const wire::Detokenize& from, detokenize& to) {
  to.request = from.request();
  to.gateway = {from.gateway()};
  in.numbers(from.ids(), to.ids, limits::ids_max, "detokenize.ids");
}

offset<wire::Detokenized> put(writer& out, const detokenized& m) {
  auto text = out.text(m.text, limits::chunk_bytes_max);
  auto failure = out.optional(m.failure);
  return wire::CreateDetokenized(out.buffer, m.request, text, failure);
}

void get(reader& in, const wire::Detokenized& from, detokenized& to) {
  to.request = from.request();
  in.text(from.text(), to.text, limits::chunk_bytes_max, "detokenized.text");
  in.optional(from.failure(), to.failure);
}

} // namespace baton::codec
