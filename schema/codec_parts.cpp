// The codec's writer and reader, and the structs that several messages share.
#include "schema/codec_parts.hpp"

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

void reader::finite(float from, float& to, std::string_view field) {
  if (!std::isfinite(from))
    return refuse(fmt::format("{} is not finite", field));
  to = from;
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
                                m.continues_prompt);
}

void get(reader& in, const wire::Constraint& from, shared_constraint& to) {
  constraint c;
  in.one_of(from.kind(), c.kind, constraint_kind::json_object, constraint_kind::calls,
            "constraint.kind");
  in.text(from.text(), c.text, limits::constraint_bytes_max, "constraint.text");
  c.continues_prompt = from.continues_prompt();
  to = shared_constraint(std::move(c));
}

namespace {

offset<wire::SamplingParams> put_with(writer& out, const sampling_params& m,
                                      offset<wire::Constraint> shape) {
  auto biases = out.structs<wire::LogitBias>(m.biases, limits::biases_max, [](const logit_bias& b) {
    return wire::LogitBias(b.token, b.bias);
  });
  wire::SamplingParamsBuilder table(out.buffer);
  table.add_temperature(m.temperature);
  table.add_top_k(m.top_k);
  table.add_top_p(m.top_p);
  table.add_min_p(m.min_p);
  table.add_repetition_penalty(m.repetition_penalty);
  table.add_presence_penalty(m.presence_penalty);
  table.add_frequency_penalty(m.frequency_penalty);
  table.add_seed(m.seed);
  table.add_logprobs(m.logprobs);
  table.add_biases(biases);
  table.add_num_speculative_tokens(m.num_speculative_tokens);
  table.add_constraint(shape);
  table.add_typical_p(m.typical_p);
  table.add_watermark_gamma(m.watermark_gamma);
  table.add_watermark_delta(m.watermark_delta);
  table.add_prompt_logprobs(m.prompt_logprobs);
  return table.Finish();
}

} // namespace

offset<wire::SamplingParams> put(writer& out, const sampling_params& m) {
  return put_with(out, m, m.constraint ? put(out, *m.constraint) : 0);
}

offset<wire::SamplingParams> put_unconstrained(writer& out, const sampling_params& m) {
  return put_with(out, m, 0);
}

void get(reader& in, const wire::SamplingParams& from, sampling_params& to) {
  in.finite(from.temperature(), to.temperature, "temperature");
  to.top_k = from.top_k();
  in.finite(from.top_p(), to.top_p, "top_p");
  in.finite(from.min_p(), to.min_p, "min_p");
  in.finite(from.repetition_penalty(), to.repetition_penalty, "repetition_penalty");
  in.finite(from.presence_penalty(), to.presence_penalty, "presence_penalty");
  in.finite(from.frequency_penalty(), to.frequency_penalty, "frequency_penalty");
  to.seed = from.seed();
  to.logprobs = from.logprobs();
  to.num_speculative_tokens = from.num_speculative_tokens();
  to.prompt_logprobs = from.prompt_logprobs();
  in.table(from.constraint(), to.constraint);
  in.finite(from.typical_p(), to.typical_p, "typical_p");
  in.finite(from.watermark_gamma(), to.watermark_gamma, "watermark_gamma");
  in.finite(from.watermark_delta(), to.watermark_delta, "watermark_delta");
  in.structs(from.biases(), to.biases, limits::biases_max, "biases",
             [&in](const wire::LogitBias& b) {
               logit_bias bias{b.token(), 0};
               in.finite(b.bias(), bias.bias, "bias");
               return bias;
             });
}

offset<wire::Stopping> put(writer& out, const stopping& m) {
  ENSURE(m.stop_texts.size() <= limits::stop_texts_max, "{} stop texts", m.stop_texts.size());
  std::vector<offset<flatbuffers::String>> texts;
  for (const auto& text : m.stop_texts) {
    ENSURE(text.size() <= limits::stop_bytes_max, "stop text of {} bytes", text.size());
    texts.push_back(out.buffer.CreateString(text)); // an empty one keeps its position
  }
  auto stop_texts = texts.empty() ? 0 : out.buffer.CreateVector(texts);
  auto stop_ids = out.numbers(m.stop_ids, limits::stop_ids_max);
  return wire::CreateStopping(out.buffer, m.max_tokens, m.min_tokens, m.ignore_eos,
                              m.include_stop_text, stop_ids, stop_texts);
}

void get(reader& in, const wire::Stopping& from, stopping& to) {
  to.max_tokens = from.tokens_max();
  to.min_tokens = from.tokens_min();
  to.ignore_eos = from.ignore_eos();
  to.include_stop_text = from.include_stop_text();
  in.numbers(from.stop_ids(), to.stop_ids, limits::stop_ids_max, "stop_ids");
  if (from.stop_texts() == nullptr)
    return;
  if (from.stop_texts()->size() > limits::stop_texts_max)
    return in.refuse(fmt::format("{} stop_texts", from.stop_texts()->size()));
  for (const auto* text : *from.stop_texts())
    in.text(text, to.stop_texts.emplace_back(), limits::stop_bytes_max, "stop_texts");
}

offset<wire::ChatMessage> put(writer& out, const chat_message& m) {
  auto role = out.text(m.role, limits::name_bytes_max);
  auto content = out.text(m.content, limits::prompt_bytes_max);
  auto name = out.text(m.name, limits::name_bytes_max);
  auto tool_calls = out.text(m.tool_calls, limits::prompt_bytes_max);
  auto tool_call_id = out.text(m.tool_call_id, limits::name_bytes_max);
  return wire::CreateChatMessage(out.buffer, role, content, name, tool_calls, tool_call_id);
}

void get(reader& in, const wire::ChatMessage& from, chat_message& to) {
  in.text(from.role(), to.role, limits::name_bytes_max, "role");
  in.text(from.content(), to.content, limits::prompt_bytes_max, "content");
  in.text(from.name(), to.name, limits::name_bytes_max, "name");
  in.text(from.tool_calls(), to.tool_calls, limits::prompt_bytes_max, "tool_calls");
  in.text(from.tool_call_id(), to.tool_call_id, limits::name_bytes_max, "tool_call_id");
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
