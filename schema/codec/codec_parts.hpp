// Internals of the codec: a writer and a reader that enforce limits, and one put/get pair for each
// struct on the wire. Most pairs are generated (generate_codec.py); those below are special.
// Included by codec*.cpp only.
//
// put() copies a struct into the buffer; ENSURE guards the limits, which API servers have checked.
// get() copies it out; the reader keeps the first error for its caller. An empty string or vector
// is an absent field.
#pragma once

#include "schema/codec/codec.hpp"
#include "schema/codec_tables.hpp"
#include "schema/limits.hpp"
#include "schema/wire_generated.h"

#include <flatbuffers/flatbuffers.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>

namespace baton::codec {

static_assert(std::endian::native == std::endian::little, "vectors are copied as they lie");

template <class T>
using offset = flatbuffers::Offset<T>;
template <class T>
using vector_offset = offset<flatbuffers::Vector<T>>;

// Longest prefix of at most `limit` bytes that does not end inside a UTF-8 character.
std::string_view cut_text(std::string_view text, std::size_t limit) noexcept;

// A member as the wire has it.
template <class T>
constexpr T scalar_of(T value) noexcept {
  return value;
}
template <class Tag, class Rep>
constexpr Rep scalar_of(strong_id<Tag, Rep> id) noexcept {
  return id.value;
}
constexpr std::int64_t scalar_of(std::chrono::milliseconds duration) noexcept {
  return duration.count();
}

class writer {
public:
  flatbuffers::FlatBufferBuilder buffer{1024, nullptr, false, 16};

  offset<flatbuffers::String> text(std::string_view from, std::size_t limit);
  // For people: truncated at the limit.
  offset<flatbuffers::String> reason(std::string_view from) {
    return text(cut_text(from, limits::reason_bytes_max), limits::reason_bytes_max);
  }

  template <class T>
  vector_offset<T> numbers(const std::vector<T>& from, std::size_t limit) {
    ENSURE(from.size() <= limit, "{} numbers, at most {}", from.size(), limit);
    return from.empty() ? 0 : buffer.CreateVector(from.data(), from.size());
  }

  vector_offset<std::uint8_t> bytes(const std::string& from, std::size_t limit);
  // An empty text keeps its position.
  vector_offset<offset<flatbuffers::String>> texts(const std::vector<std::string>& from,
                                                   std::size_t limit, std::size_t bytes_max);

  // One struct of the schema per element.
  template <class S, class T>
  vector_offset<const S*> structs(const std::vector<T>& from, std::size_t limit) {
    ENSURE(from.size() <= limit, "{} structs, at most {}", from.size(), limit);
    if (from.empty())
      return 0;
    std::vector<S> made;
    made.reserve(from.size());
    for (const auto& element : from)
      made.push_back(put(*this, element));
    return buffer.CreateVectorOfStructs(made); // the uninitialized kind aligns to the size
  }

  template <class T>
  auto tables(const std::vector<T>& from, std::size_t limit) {
    using table = decltype(put(*this, from.front()));
    ENSURE(from.size() <= limit, "{} tables, at most {}", from.size(), limit);
    std::vector<table> made;
    made.reserve(from.size());
    for (const auto& element : from)
      made.push_back(put(*this, element));
    using made_vector = decltype(buffer.CreateVector(made));
    return made.empty() ? made_vector{} : buffer.CreateVector(made);
  }

  template <class T>
  auto table(const T& from) {
    return put(*this, from);
  }
  template <class T>
  auto table(const std::optional<T>& from) {
    using made = decltype(put(*this, *from));
    return from ? put(*this, *from) : made{};
  }

  // The draws of a micro_batch leave out their constraints, which several share.
  bool leaves_out_constraints = false;
};

// Copies out at most as many bytes as the body has. This rejects a small body whose thousand
// offsets all point at one large string.
class reader {
public:
  explicit reader(std::size_t body_bytes) noexcept : budget_bytes_(body_bytes) {}

  // A description of the first error.
  const std::optional<std::string>& refusal() const noexcept { return refusal_; }
  void refuse(std::string what);

  void text(const flatbuffers::String* from, std::string& to, std::size_t limit,
            std::string_view field);
  void bytes(const flatbuffers::Vector<std::uint8_t>* from, std::string& to, std::size_t limit,
             std::string_view field);
  template <class T>
  void finite(T from, T& to, std::string_view field) {
    if (!std::isfinite(from))
      return refuse(fmt::format("{} is not finite", field));
    to = from;
  }
  void duration(std::int64_t from_ms, std::chrono::milliseconds& to, std::string_view field);
  void at_most(std::uint32_t value, std::size_t limit, std::string_view field);

  template <class T>
  void scalar(T from, T& to, std::string_view) {
    to = from;
  }
  template <class Tag, class Rep>
  void scalar(Rep from, strong_id<Tag, Rep>& to, std::string_view) {
    to = {from};
  }
  void scalar(std::int64_t from_ms, std::chrono::milliseconds& to, std::string_view field) {
    duration(from_ms, to, field);
  }

  // Any of the schema's enumerators.
  template <class W, class E>
  void one_of(W from, E& to, std::string_view field) {
    one_of(from, to, static_cast<E>(W::MIN), static_cast<E>(W::MAX), field);
  }
  template <class W, class E>
  void one_of(W from, E& to, E first, E last, std::string_view field) {
    using number = std::underlying_type_t<E>;
    const auto value = static_cast<number>(from);
    if (value < static_cast<number>(first) || value > static_cast<number>(last))
      return refuse(fmt::format("{} is {}", field, static_cast<int>(value)));
    to = static_cast<E>(value);
  }

  template <class T>
  void numbers(const flatbuffers::Vector<T>* from, std::vector<T>& to, std::size_t limit,
               std::string_view field) {
    if (from != nullptr && take<T>(from->Data(), from->size(), limit, field))
      to.assign(from->data(), from->data() + from->size());
  }

  void texts(const flatbuffers::Vector<offset<flatbuffers::String>>* from,
             std::vector<std::string>& to, std::size_t limit, std::size_t bytes_max,
             std::string_view field);

  template <class S, class T>
  void structs(const flatbuffers::Vector<const S*>* from, std::vector<T>& to, std::size_t limit,
               std::string_view field) {
    if (from == nullptr || !take<S>(from->Data(), from->size(), limit, field))
      return;
    to.reserve(from->size());
    for (const S* element : *from)
      get(*this, *element, to.emplace_back());
  }

  template <class W, class T>
  void tables(const flatbuffers::Vector<offset<W>>* from, std::vector<T>& to, std::size_t limit,
              std::string_view field) {
    if (from == nullptr || !spend(from->size(), sizeof(flatbuffers::uoffset_t), limit, field))
      return;
    to.resize(from->size());
    for (flatbuffers::uoffset_t i = 0; i < from->size() && !refusal_; ++i)
      get(*this, *from->Get(i), to[i]);
  }

  // An optional table: if absent, `to` keeps its default.
  template <class W, class T>
  void table(const W* from, T& to) {
    if (from != nullptr)
      get(*this, *from, to);
  }
  template <class W, class T>
  void table(const W* from, std::optional<T>& to) {
    if (from != nullptr)
      get(*this, *from, to.emplace());
  }

private:
  bool spend(std::size_t count, std::size_t size, std::size_t limit, std::string_view field);
  // The verifier of FlatBuffers 2.0 checks the alignment of a vector's length, not of its elements.
  template <class Element>
  bool take(const std::uint8_t* data, std::size_t count, std::size_t limit,
            std::string_view field) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(Element) == 0)
      return spend(count, sizeof(Element), limit, field);
    refuse(fmt::format("{} is not aligned", field));
    return false;
  }

  std::size_t budget_bytes_;
  std::optional<std::string> refusal_;
};

// Parts.
offset<wire::Error> put(writer& out, const error& m);
offset<wire::Constraint> put(writer& out, const constraint& m);
offset<wire::Constraint> put(writer& out, const shared_constraint& m);
offset<wire::Pool> put(writer& out, const pool& m);
offset<wire::Generation> put(writer& out, const generation& m);
void get(reader& in, const wire::Error& from, error& to);
void get(reader& in, const wire::Constraint& from, shared_constraint& to);
void get(reader& in, const wire::Draw& from, draw& to);
void get(reader& in, const wire::Pool& from, pool& to);
void get(reader& in, const wire::Generation& from, generation& to);

struct put_prompt_result {
  wire::Prompt type;
  offset<void> table;
};
put_prompt_result put_prompt(writer& out, const prompt& m);
void get_prompt(reader& in, wire::Prompt type, const void* table, prompt& to);

// Messages.
offset<wire::Cancel> put(writer& out, const cancel& m);
offset<wire::MicroBatch> put(writer& out, const micro_batch& m);
offset<wire::Tokenized> put(writer& out, const tokenized& m);
offset<wire::ModelCard> put(writer& out, const model_card& m);
offset<wire::Generations> put(writer& out, const generations& m);
offset<wire::ModelSettings> put(writer& out, const model_settings& m);
offset<wire::ChangeModel> put(writer& out, const change_model& m);

void get(reader& in, const wire::Cancel& from, cancel& to);
void get(reader& in, const wire::MicroBatch& from, micro_batch& to);
void get(reader& in, const wire::Tokenized& from, tokenized& to);
void get(reader& in, const wire::ModelCard& from, model_card& to);
void get(reader& in, const wire::Generations& from, generations& to);
void get(reader& in, const wire::ModelSettings& from, model_settings& to);
void get(reader& in, const wire::ChangeModel& from, change_model& to);

// A finished buffer as a payload that owns it, 16-byte aligned.
template <class W>
payload finish(writer& out, offset<W> root, const char* identifier) {
  out.buffer.Align(16); // makes the buffer's size, and so its start, a multiple of 16
  out.buffer.Finish(root, identifier);
  auto owner = std::make_shared<flatbuffers::DetachedBuffer>(out.buffer.Release());
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  const auto size_bytes = owner->size();
  return {std::move(owner), data, size_bytes};
}

// The same bytes at an address that is a multiple of `alignment`: copied only if it is not.
payload aligned_to(const payload& bytes, std::size_t alignment);
// The same bytes in memory of its own.
payload aligned_copy(const payload& bytes, std::size_t alignment);

// The root table, or nothing if the structure is invalid. The result points into `body`, which must
// be 16-byte aligned.
template <class W>
const W* verified_root(const payload& body, const char* identifier) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(body.data);
  flatbuffers::Verifier verifier(data, body.size_bytes, limits::depth_max, limits::tables_max);
  return verifier.VerifyBuffer<W>(identifier) ? flatbuffers::GetRoot<W>(data) : nullptr;
}

} // namespace baton::codec
