// Bytes from a broken or hostile peer: refused with bad_frame, never trusted, never fatal.
#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"
#include "schema/wire_generated.h"
#include "tests/unit/schema/message_fill.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace baton;
using baton::test::bytes_of;
using baton::test::one_of_each;
using baton::test::text_of;

namespace {

envelope of_kind(const message& m) {
  envelope e;
  e.kind = kind_of(m);
  return e;
}

// Decodes and, where that succeeds, reads every value and encodes again.
bool survives(const envelope& e, const payload& body, const payload& bulk) {
  auto back = decode_body(e, body, bulk);
  if (!back) {
    CHECK(back.error().code == errc::bad_frame);
    return false;
  }
  CHECK_FALSE(text_of(*back).empty());
  CHECK(kind_of(*back) == e.kind);
  return true;
}

errc refusal_of(const message& m) {
  auto made = encode({}, m);
  auto back = decode_body(of_kind(m), made.body, made.bulk);
  REQUIRE_FALSE(back);
  return back.error().code;
}

payload finished(flatbuffers::FlatBufferBuilder& buffer) {
  return bytes_of({reinterpret_cast<const char*>(buffer.GetBufferPointer()), buffer.GetSize()});
}

payload raw_envelope(std::uint16_t version, std::uint16_t kind) {
  flatbuffers::FlatBufferBuilder buffer;
  buffer.Finish(wire::CreateEnvelope(buffer, version, kind, 1, 2, 3, 4, 5, 6, 7, 8), "BTEV");
  return finished(buffer);
}

} // namespace

TEST_CASE("a body truncated at any byte is refused") {
  for (const auto& m : one_of_each(2)) {
    CAPTURE(name_of(kind_of(m)));
    auto made = encode({}, m);
    const auto whole = text_of(made.body);
    // The builder pads at the front; only the padding of a trailing string may be missing.
    for (std::size_t size = 0; size < whole.size(); ++size)
      if (survives(of_kind(m), bytes_of(whole.substr(0, size)), made.bulk))
        CHECK(whole.size() - size < 8);
  }
}

TEST_CASE("a body with any one byte changed is refused or read as another message of its kind") {
  for (std::size_t form = 0; form < 3; ++form)
    for (const auto& m : one_of_each(form)) {
      CAPTURE(name_of(kind_of(m)));
      auto made = encode({}, m);
      const auto whole = text_of(made.body);
      for (std::size_t at = 0; at < whole.size(); ++at)
        for (const int flip : {0x01, 0x80, 0xFF, 0x7F, 0x10}) {
          auto bytes = whole;
          bytes[at] = static_cast<char>(bytes[at] ^ flip);
          survives(of_kind(m), bytes_of(bytes), made.bulk);
        }
    }
}

TEST_CASE("random bytes and bodies of another kind are refused") {
  std::mt19937_64 random(20231105);
  const auto messages = one_of_each();
  for (const auto& m : messages) {
    CAPTURE(name_of(kind_of(m)));
    for (int round = 0; round < 200; ++round) {
      std::string bytes(random() % 300, '\0');
      for (auto& byte : bytes)
        byte = static_cast<char>(random());
      CHECK_FALSE(survives(of_kind(m), bytes_of(bytes), {}));
    }
    for (const auto& other : messages)
      if (other.index() != m.index())
        CHECK_FALSE(survives(of_kind(m), encode({}, other).body, {}));
  }
}

TEST_CASE("a body with several random changes never crashes the reader") {
  std::mt19937_64 random(7);
  for (const auto& m : one_of_each(2)) {
    auto made = encode({}, m);
    for (int round = 0; round < 500; ++round) {
      auto bytes = text_of(made.body);
      for (auto changes = random() % 6 + 1; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      survives(of_kind(m), bytes_of(bytes), made.bulk);
    }
  }
}

TEST_CASE(
    "an envelope that is truncated, changed or random is refused or read as another envelope") {
  const auto whole = text_of(encode({}, drain{}).head);
  for (std::size_t size = 0; size < whole.size(); ++size)
    if (auto e = decode_envelope(bytes_of(whole.substr(0, size))))
      CHECK(whole.size() - size < 8);
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int flip = 1; flip < 256; ++flip) {
      auto bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      if (auto e = decode_envelope(bytes_of(bytes)); e)
        CHECK(name_of(e->kind) != "unknown");
      else
        CHECK((e.error().code == errc::bad_frame || e.error().code == errc::version_mismatch));
    }
  CHECK_FALSE(decode_envelope({}));
  CHECK_FALSE(decode_envelope(bytes_of("")));
  CHECK_FALSE(decode_envelope(bytes_of(whole + std::string(limits::head_bytes_max, '\0'))));
}

TEST_CASE("another version of the protocol has its own error") {
  auto e = decode_envelope(raw_envelope(protocol_version + 1, 18));
  REQUIRE_FALSE(e);
  CHECK(e.error().code == errc::version_mismatch);
}

TEST_CASE("an unknown kind is refused") {
  constexpr std::uint16_t next = std::variant_size_v<message> + 1;
  for (const auto kind : std::initializer_list<std::uint16_t>{0, next, 65535}) {
    auto e = decode_envelope(raw_envelope(protocol_version, kind));
    REQUIRE_FALSE(e);
    CHECK(e.error().code == errc::bad_frame);
    envelope unknown;
    unknown.kind = message_kind{kind};
    CHECK_FALSE(decode_body(unknown, encode({}, drain{}).body, {}));
  }
}

TEST_CASE("the numbers of the schema's enums are those of the code") {
  for (const auto& m : one_of_each()) {
    const auto kind = static_cast<wire::MessageKind>(kind_of(m));
    CHECK(std::string_view(wire::EnumNameMessageKind(kind)) == name_of(kind_of(m)));
  }
  CHECK(static_cast<int>(wire::MessageKind::MAX) == std::variant_size_v<message>);
  CHECK(static_cast<int>(wire::CancelReason::client_lost) ==
        static_cast<int>(cancel_reason::client_lost));
  CHECK(static_cast<int>(wire::CancelReason::MAX) == static_cast<int>(cancel_reason::client_lost));
  CHECK(static_cast<int>(wire::Finish::MAX) == static_cast<int>(finish::failed));
  CHECK(static_cast<int>(wire::Finish::length) == static_cast<int>(finish::length));
  CHECK(static_cast<int>(wire::Role::MAX) == static_cast<int>(role::worker));
  CHECK(static_cast<int>(wire::Role::shard) == static_cast<int>(role::shard));
  CHECK(static_cast<int>(wire::Phase::MAX) == static_cast<int>(phase::unloaded));
  CHECK(static_cast<int>(wire::Phase::ready) == static_cast<int>(phase::ready));
}

TEST_CASE("enums out of range are refused") {
  chunk c;
  c.finish = static_cast<finish>(5);
  CHECK(refusal_of(c) == errc::bad_frame);
  tokens t;
  t.finish = static_cast<finish>(255);
  CHECK(refusal_of(t) == errc::bad_frame);
  cancel no;
  no.why = static_cast<cancel_reason>(0);
  CHECK(refusal_of(no) == errc::bad_frame);
  no.why = static_cast<cancel_reason>(9);
  CHECK(refusal_of(no) == errc::bad_frame);
  hello h;
  h.role = static_cast<role>(8);
  CHECK(refusal_of(h) == errc::bad_frame);
  status s;
  s.phase = static_cast<phase>(0);
  CHECK(refusal_of(s) == errc::bad_frame);
  status supervised;
  supervised.supervision.emplace().strategy = static_cast<restart_strategy>(3);
  CHECK(refusal_of(supervised) == errc::bad_frame);
  model_card card;
  card.phase = static_cast<phase>(9);
  CHECK(refusal_of(card) == errc::bad_frame);
}

TEST_CASE("sampling parameters that are not finite are refused in every message") {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  constexpr auto infinite = std::numeric_limits<float>::infinity();
  float sampling_params::*const fields[] = {&sampling_params::temperature,
                                            &sampling_params::top_p,
                                            &sampling_params::min_p,
                                            &sampling_params::repetition_penalty,
                                            &sampling_params::presence_penalty,
                                            &sampling_params::frequency_penalty,
                                            &sampling_params::typical_p,
                                            &sampling_params::watermark_gamma,
                                            &sampling_params::watermark_delta};
  for (const auto field : fields)
    for (const auto value : {nan, infinite, -infinite}) {
      sampling_params sampling;
      sampling.*field = value;
      generate asked;
      asked.terms.sampling = sampling;
      CHECK(refusal_of(asked) == errc::bad_frame);
      submit submitted;
      submitted.terms.sampling = sampling;
      CHECK(refusal_of(submitted) == errc::bad_frame);
      admit admitted;
      admitted.terms.sampling = sampling;
      CHECK(refusal_of(admitted) == errc::bad_frame);
      micro_batch batch;
      batch.draws.resize(1);
      batch.draws[0].sampling = sampling;
      CHECK(refusal_of(batch) == errc::bad_frame);
    }
  generate biased;
  biased.terms.sampling.biases = {{1, nan}};
  CHECK(refusal_of(biased) == errc::bad_frame);
}

TEST_CASE("durations below zero or beyond a year are refused") {
  for (const auto ms : {std::int64_t{-1}, limits::duration_max.count() + 1,
                        std::numeric_limits<std::int64_t>::max()}) {
    CHECK(refusal_of(drain{std::chrono::milliseconds{ms}}) == errc::bad_frame);
    generate g;
    g.terms.deadline = std::chrono::milliseconds{ms};
    CHECK(refusal_of(g) == errc::bad_frame);
  }
}

TEST_CASE("counts used in later multiplications are bounded") {
  generate g;
  g.terms.choices = limits::choices_max + 1;
  CHECK(refusal_of(g) == errc::bad_frame);
  stage_ready ready;
  ready.stages = limits::stages_max + 1;
  CHECK(refusal_of(ready) == errc::bad_frame);
  micro_batch batch;
  batch.slices.resize(1);
  batch.slices[0].rows = limits::rows_max + 1;
  CHECK(refusal_of(batch) == errc::bad_frame);
}

TEST_CASE("activations must be whole rows, values whole floats; other messages have neither") {
  micro_batch batch;
  batch.tokens = {1, 2, 3};
  auto made = encode({}, batch);
  const auto decodes = [&](std::size_t bytes) {
    return survives(of_kind(batch), made.body, bytes_of(std::string(bytes, 'a')));
  };
  CHECK(decodes(0));
  CHECK(decodes(12));
  CHECK(decodes(24));
  for (const std::size_t bytes : {1u, 4u, 8u, 11u, 13u, 16u, 23u})
    CHECK_FALSE(decodes(bytes));
  auto no_rows = encode({}, micro_batch{});
  CHECK_FALSE(survives(of_kind(batch), no_rows.body, bytes_of(std::string(4, 'a'))));
  for (const auto& m : one_of_each())
    if (!std::holds_alternative<micro_batch>(m) && !std::holds_alternative<group_values>(m))
      CHECK_FALSE(survives(of_kind(m), encode({}, m).body, bytes_of("aaaa")));
  const group_values values;
  CHECK(survives(of_kind(values), encode({}, values).body, bytes_of("aaaabbbb")));
  CHECK_FALSE(survives(of_kind(values), encode({}, values).body, bytes_of("aaaabb")));
}

TEST_CASE("misaligned 8-byte numbers are refused") {
  int refused = 0;
  for (int before = 0; before < 2; ++before) { // one of the two offsets is a multiple of eight
    flatbuffers::FlatBufferBuilder buffer;
    for (int i = 0; i < before; ++i)
      buffer.PushElement<std::uint32_t>(0);
    constexpr std::size_t words = sizeof(wire::Feed) / sizeof(std::uint32_t);
    buffer.StartVector(words, sizeof(std::uint32_t));
    for (std::size_t i = 0; i < words; ++i)
      buffer.PushElement<std::uint32_t>(0);
    const flatbuffers::Offset<flatbuffers::Vector<const wire::Feed*>> feeds = buffer.EndVector(1);
    wire::MicroBatchBuilder batch(buffer);
    batch.add_epoch(1); // aligns the whole to eight
    batch.add_feeds(feeds);
    buffer.Finish(batch.Finish(), "BT07");
    refused += survives(of_kind(micro_batch{}), finished(buffer), {}) ? 0 : 1;
  }
  CHECK(refused == 1);
}

TEST_CASE("a prompt without a form or of an unknown form is refused") {
  flatbuffers::FlatBufferBuilder none;
  none.Finish(wire::CreateGenerate(none), "BT30");
  CHECK_FALSE(survives(of_kind(generate{}), finished(none), {}));
  flatbuffers::FlatBufferBuilder other;
  auto text = wire::CreateTextPrompt(other);
  other.Finish(wire::CreateGenerate(other, 1, 0, static_cast<wire::Prompt>(4), text.Union()),
               "BT30");
  CHECK_FALSE(survives(of_kind(generate{}), finished(other), {}));
}

TEST_CASE("one long string with many offsets is not copied for each of them") {
  flatbuffers::FlatBufferBuilder buffer;
  auto text = buffer.CreateString(std::string(16 << 10, 'x'));
  auto one = wire::CreateChatMessage(buffer, 0, text);
  auto many = buffer.CreateVector(std::vector(limits::chat_messages_max, one));
  auto chat = wire::CreateChatPrompt(buffer, many);
  buffer.Finish(wire::CreateGenerate(buffer, 1, 0, wire::Prompt::ChatPrompt, chat.Union()), "BT30");
  CHECK_FALSE(survives(of_kind(generate{}), finished(buffer), {}));
}

TEST_CASE("pieces of a tokenized text cannot end before they begin or after the text") {
  for (const auto& ends : {std::vector<std::uint32_t>{3, 2}, {1, 5}, {0xFFFFFFFFu}}) {
    flatbuffers::FlatBufferBuilder buffer;
    auto bytes = buffer.CreateVector(std::vector<std::uint8_t>{'a', 'b', 'c', 'd'});
    auto offsets = buffer.CreateVector(ends);
    buffer.Finish(wire::CreateTokenized(buffer, 1, 0, bytes, offsets), "BT12");
    CHECK_FALSE(survives(of_kind(tokenized{}), finished(buffer), {}));
  }
}

TEST_CASE("an error code of a newer peer is read as internal, and its message is kept") {
  flatbuffers::FlatBufferBuilder buffer;
  auto words = buffer.CreateString("the moon is in the way");
  auto reason = wire::CreateError(buffer, 999, words);
  buffer.Finish(wire::CreateRejected(buffer, 1, 2, reason), "BT03");
  auto back = decode_body(of_kind(rejected{}), finished(buffer), {});
  REQUIRE(back);
  CHECK(std::get<rejected>(*back).reason.code == errc::internal);
  CHECK(std::get<rejected>(*back).reason.message == "the moon is in the way");
}

TEST_CASE("a constraint of no kind, or one missing in the batch, is refused") {
  const auto refused = [](std::uint8_t kind, std::uint32_t number) {
    flatbuffers::FlatBufferBuilder buffer;
    const auto text = buffer.CreateString("a");
    const auto constraints = buffer.CreateVector(
        std::vector{wire::CreateConstraint(buffer, kind, text, /*continues_prompt=*/false)});
    const auto sampling = wire::CreateSamplingParams(buffer);
    const auto draws =
        buffer.CreateVector(std::vector{wire::CreateDraw(buffer, 0, sampling, 0, 0, number)});
    buffer.Finish(wire::CreateMicroBatch(buffer, 1, 1, 0, 0, draws, 0, 0, 0, constraints), "BT07");
    return !decode_body(of_kind(micro_batch{}), finished(buffer), {});
  };
  CHECK_FALSE(refused(3, 0));
  CHECK_FALSE(refused(3, 1));
  CHECK(refused(3, 2));
  CHECK(refused(0, 1));
  CHECK_FALSE(refused(6, 0));
  CHECK_FALSE(refused(7, 0));
  CHECK_FALSE(refused(8, 0));
  CHECK(refused(9, 0));
}
