// The codec's writer and reader, and the structs that several messages share.
#include "schema/codec/codec_parts.hpp"

#include <cstring>
#include <new>

namespace baton::codec {

std::string_view cut_text(std::string_view text, std::size_t limit) noexcept {
  if (text.size() <= limit)
    return text;
  auto end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end; // byte `end` continues a character: drop the whole character
  return text.substr(0, end);
}

offset<flatbuffers::String> writer::text(std::string_view from, std::size_t limit) {
  ENSURE(from.size() <= limit, "text of {} bytes, at most {}", from.size(), limit);
  return from.empty() ? 0 : buffer.CreateString(from.data(), from.size());
}

vector_offset<std::uint8_t> writer::bytes(const std::string& from, std::size_t limit) {
  ENSURE(from.size() <= limit, "{} bytes, at most {}", from.size(), limit);
  const auto* data = reinterpret_cast<const std::uint8_t*>(from.data());
  return from.empty() ? 0 : buffer.CreateVector(data, from.size());
}

vector_offset<offset<flatbuffers::String>> writer::texts(const std::vector<std::string>& from,
                                                         std::size_t limit, std::size_t bytes_max) {
  ENSURE(from.size() <= limit, "{} texts, at most {}", from.size(), limit);
  std::vector<offset<flatbuffers::String>> made;
  for (const auto& one : from) {
    ENSURE(one.size() <= bytes_max, "text of {} bytes, at most {}", one.size(), bytes_max);
    made.push_back(buffer.CreateString(one));
  }
  return made.empty() ? 0 : buffer.CreateVector(made);
}

void reader::refuse(std::string what) {
  if (!refusal_)
    refusal_ = std::move(what);
}

bool reader::spend(std::size_t count, std::size_t size, std::size_t limit, std::string_view field) {
  if (count > limit) {
    refuse(fmt::format("{} has {} entries, at most {}", field, count, limit));
    return false;
  }
  const auto bytes = count * size; // no overflow: counts have 32 bits, sizes are small
  if (bytes > budget_bytes_) {
    refuse(fmt::format("{} refers to the same bytes more than once", field));
    return false;
  }
  budget_bytes_ -= bytes;
  return true;
}

void reader::text(const flatbuffers::String* from, std::string& to, std::size_t limit,
                  std::string_view field) {
  if (from != nullptr && spend(from->size(), 1, limit, field))
    to.assign(from->c_str(), from->size());
}

void reader::bytes(const flatbuffers::Vector<std::uint8_t>* from, std::string& to,
                   std::size_t limit, std::string_view field) {
  if (from != nullptr && spend(from->size(), 1, limit, field))
    to.assign(reinterpret_cast<const char*>(from->data()), from->size());
}

void reader::texts(const flatbuffers::Vector<offset<flatbuffers::String>>* from,
                   std::vector<std::string>& to, std::size_t limit, std::size_t bytes_max,
                   std::string_view field) {
  if (from == nullptr)
    return;
  at_most(from->size(), limit, field);
  for (flatbuffers::uoffset_t i = 0; i < from->size() && !refusal_; ++i)
    text(from->Get(i), to.emplace_back(), bytes_max, field);
}

void reader::duration(std::int64_t from_ms, std::chrono::milliseconds& to, std::string_view field) {
  if (from_ms < 0 || from_ms > limits::duration_max.count())
    return refuse(fmt::format("{} is {} ms", field, from_ms));
  to = std::chrono::milliseconds{from_ms};
}

void reader::at_most(std::uint32_t value, std::size_t limit, std::string_view field) {
  if (value > limit)
    refuse(fmt::format("{} is {}, at most {}", field, value, limit));
}

payload aligned_to(const payload& bytes, std::size_t alignment) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(bytes.data) % alignment == 0;
  return is_aligned ? bytes : aligned_copy(bytes, alignment);
}

payload aligned_copy(const payload& bytes, std::size_t alignment) {
  const auto align = std::align_val_t{alignment};
  std::shared_ptr<void> copy(::operator new(bytes.size_bytes, align),
                             [align](void* p) { ::operator delete(p, align); });
  std::memcpy(copy.get(), bytes.data, bytes.size_bytes);
  const auto* data = static_cast<const std::byte*>(copy.get());
  return {std::move(copy), data, bytes.size_bytes};
}

offset<wire::Error> put(writer& out, const error& m) {
  const auto& row = row_of(m.code);
  auto message = out.reason(m.message);
  auto param = out.reason(m.param);
  auto name = out.text(row.name, limits::name_bytes_max);
  return wire::CreateError(out.buffer, static_cast<std::uint16_t>(m.code), message, param, name,
                           row.retryable);
}

void get(reader& in, const wire::Error& from, error& to) {
  // Keep the message of a newer peer's unknown code.
  to.code = errc_from(from.code()).value_or(errc::internal);
  in.text(from.message(), to.message, limits::reason_bytes_max, "error.message");
  in.text(from.param(), to.param, limits::reason_bytes_max, "error.param");
}

offset<wire::Constraint> put(writer& out, const constraint& m) {
  auto text = out.text(m.text, limits::constraint_bytes_max);
  return wire::CreateConstraint(out.buffer, static_cast<std::uint8_t>(m.kind), text,
                                m.continues_prompt, static_cast<std::uint8_t>(m.reasoning),
                                m.begins_in_reasoning, m.reasoning_tokens_max);
}

offset<wire::Constraint> put(writer& out, const shared_constraint& m) {
  return m && !out.leaves_out_constraints ? put(out, *m) : 0;
}

void get(reader& in, const wire::Constraint& from, shared_constraint& to) {
  constraint c;
  in.one_of(from.kind(), c.kind, constraint_kind::json_object, constraint_kind_last,
            "constraint.kind");
  in.text(from.text(), c.text, limits::constraint_bytes_max, "constraint.text");
  c.continues_prompt = from.continues_prompt();
  in.one_of(from.reasoning(), c.reasoning, reasoning_format::none, reasoning_format_last,
            "constraint.reasoning");
  c.begins_in_reasoning = from.begins_in_reasoning();
  c.reasoning_tokens_max = std::max(from.reasoning_tokens_max(), -1);
  to = shared_constraint(std::move(c));
}

put_prompt_result put_prompt(writer& out, const prompt& m) {
  if (const auto* text = std::get_if<std::string>(&m)) {
    auto bytes = out.text(*text, limits::prompt_bytes_max);
    return {wire::Prompt::TextPrompt, wire::CreateTextPrompt(out.buffer, bytes).Union()};
  }
  if (const auto* ids = std::get_if<ids_prompt>(&m)) {
    auto numbers = out.numbers(*ids, limits::ids_max);
    return {wire::Prompt::IdsPrompt, wire::CreateIdsPrompt(out.buffer, numbers).Union()};
  }
  auto messages = out.tables(std::get<chat_prompt>(m), limits::chat_messages_max);
  return {wire::Prompt::ChatPrompt, wire::CreateChatPrompt(out.buffer, messages).Union()};
}

void get_prompt(reader& in, wire::Prompt type, const void* table, prompt& to) {
  if (table == nullptr)
    return in.refuse("input is missing");
  switch (type) {
  case wire::Prompt::TextPrompt:
    return in.text(static_cast<const wire::TextPrompt*>(table)->text(), to.emplace<std::string>(),
                   limits::prompt_bytes_max, "prompt");
  case wire::Prompt::IdsPrompt:
    return in.numbers(static_cast<const wire::IdsPrompt*>(table)->ids(), to.emplace<ids_prompt>(),
                      limits::ids_max, "prompt");
  case wire::Prompt::ChatPrompt:
    return in.tables(static_cast<const wire::ChatPrompt*>(table)->messages(),
                     to.emplace<chat_prompt>(), limits::chat_messages_max, "messages");
  case wire::Prompt::NONE:
    break;
  }
  in.refuse(fmt::format("input is of form {}", static_cast<int>(type)));
}

} // namespace baton::codec
