// Messages survive the codec completely: every field of every kind, at any alignment.
#include "schema/codec/codec.hpp"
#include "schema/limits.hpp"
#include "tests/unit/schema/message_fill.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace baton;
using baton::test::bytes_of;
using baton::test::default_of;
using baton::test::one_of_each;
using baton::test::text_of;

namespace {

envelope some_envelope() {
  envelope e;
  e.source = {1};
  e.source_incarnation = {(std::uint64_t{7} << 40) + 2};
  e.target = {3};
  e.target_incarnation = {(std::uint64_t{7} << 40) + 4};
  e.source_actor = {5};
  e.target_actor = {6};
  e.correlation = (std::uint64_t{7} << 40) + 7;
  e.sequence = (std::uint64_t{7} << 40) + 8;
  return e;
}

result<message> through(const message& m) {
  auto made = encode(some_envelope(), m);
  auto head = decode_envelope(made.head);
  if (!head)
    return head.error();
  return decode_body(*head, made.body, made.bulk);
}

std::uintptr_t address(const payload& p) {
  return reinterpret_cast<std::uintptr_t>(p.data);
}

} // namespace

TEST_CASE("every field of every message passes the codec") {
  for (std::size_t form = 0; form < 3; ++form)
    for (const auto& m : one_of_each(form)) {
      CAPTURE(name_of(kind_of(m)));
      auto back = through(m);
      REQUIRE_MESSAGE(back, back.error().message);
      CHECK(back->index() == m.index());
      CHECK(text_of(*back) == text_of(m));
    }
}

TEST_CASE("the filled messages contain no default value") {
  for (const auto& m : one_of_each()) {
    CAPTURE(name_of(kind_of(m)));
    std::multiset<std::string> values;
    for (const auto& leaf : test::leaves_of(m))
      if (leaf.find("enum") == leaf.npos && leaf != "true" && leaf != "false" &&
          leaf.find(" of") == leaf.npos && leaf != "some")
        CHECK_MESSAGE(values.emplace(leaf) != values.end(), leaf);
    for (const auto& value : values)
      CHECK_MESSAGE(values.count(value) == 1, value);
    CHECK(text_of(m) != text_of(default_of(m.index())));
  }
}

TEST_CASE("a default message stays one: absent fields have the defaults of the structs") {
  for (std::size_t index = 0; index < std::variant_size_v<message>; ++index) {
    const auto m = default_of(index);
    CAPTURE(name_of(kind_of(m)));
    auto back = through(m);
    REQUIRE_MESSAGE(back, back.error().message);
    CHECK(text_of(*back) == text_of(m));
  }
}

TEST_CASE("every field of the envelope passes, and the kind is the message's") {
  auto e = some_envelope();
  auto head = decode_envelope(encode(e, drain{}).head);
  REQUIRE(head);
  e.kind = kind_of(drain{});
  CHECK(*head == e);
}

TEST_CASE("frames are 16-byte aligned, small ones and large ones") {
  for (std::size_t size = 1; size < 200; ++size) {
    detokenized m;
    m.text = std::string(size, 'x');
    auto made = encode({}, m);
    CHECK(address(made.head) % 16 == 0);
    CHECK(address(made.body) % 16 == 0);
    CHECK(made.size_bytes() == made.head.size_bytes + made.body.size_bytes);
  }
  tokenize large;
  large.input = std::string(limits::prompt_bytes_max, 'x');
  CHECK(address(encode({}, large).body) % 16 == 0);
}

TEST_CASE("frames at odd addresses, like slices of a receive buffer, are read as well") {
  for (const auto& m : one_of_each()) {
    CAPTURE(name_of(kind_of(m)));
    auto made = encode(some_envelope(), m);
    for (std::size_t shift = 1; shift < 16; shift += 2) {
      const auto shifted = [shift](const payload& p) {
        auto copy = bytes_of(std::string(shift, '#') + text_of(p));
        return payload{copy.owner, copy.data + shift, p.size_bytes};
      };
      auto head = decode_envelope(shifted(made.head));
      REQUIRE(head);
      auto back = decode_body(*head, shifted(made.body), shifted(made.bulk));
      REQUIRE(back);
      CHECK(text_of(*back) == text_of(m));
    }
  }
}

TEST_CASE("activations that are 64-byte aligned are not copied, and keep their owner") {
  struct alignas(64) rows {
    float values[32] = {};
  };
  auto owner = std::make_shared<rows>();
  micro_batch m;
  m.tokens = {1, 2};
  m.activations = {owner, reinterpret_cast<const std::byte*>(owner->values), sizeof owner->values};
  auto made = encode({}, m);
  CHECK(made.bulk.data == m.activations.data);
  auto back = decode_body(*decode_envelope(made.head), made.body, made.bulk);
  REQUIRE(back);
  CHECK(std::get<micro_batch>(*back).activations.data == m.activations.data);
  CHECK(owner.use_count() == 4); // ours, the message's, the frame's, the decoded message's
}

TEST_CASE("misaligned activations are copied to where vector loads can read them") {
  auto odd = bytes_of("#" + std::string(24, 'a'));
  micro_batch m;
  m.tokens = {1, 2};
  m.activations = {odd.owner, odd.data + 1, 24};
  auto made = encode({}, m);
  auto back = decode_body(*decode_envelope(made.head), made.body, made.bulk);
  REQUIRE(back);
  const auto& activations = std::get<micro_batch>(*back).activations;
  CHECK(address(activations) % 64 == 0);
  CHECK(text_of(activations) == std::string(24, 'a'));
}

TEST_CASE("kinds are numbered from 1 in the order of the variant, under distinct names") {
  std::set<std::string_view> names;
  for (const auto& m : one_of_each()) {
    CHECK(static_cast<std::size_t>(kind_of(m)) == m.index() + 1);
    CHECK(names.insert(name_of(kind_of(m))).second);
  }
  CHECK(name_of(kind_of(reserve{})) == "reserve");
  CHECK(name_of(kind_of(micro_batch{})) == "micro_batch");
  CHECK(name_of(kind_of(generate{})) == "generate");
  CHECK(name_of(message_kind{0}) == "unknown");
  CHECK(name_of(message_kind{std::variant_size_v<message> + 1}) == "unknown");
}

TEST_CASE("data needs link credit, control never does") {
  for (const message& m : {message{micro_batch{}}, message{chunk{}}, message{submit{}},
                           message{generate{}}, message{tokens{}}, message{chunks{}}})
    CHECK(needs_credit(kind_of(m)));
  for (const message& m :
       {message{sampled{}}, message{cancel{}}, message{open_epoch{}}, message{epoch_opened{}},
        message{heartbeat{}}, message{credit{}}, message{hello{}}, message{hello_ack{}},
        message{reserve{}}, message{granted{}}, message{rejected{}}, message{drain{}}})
    CHECK_FALSE(needs_credit(kind_of(m)));
  CHECK_FALSE(needs_credit(message_kind{0}));
}

TEST_CASE("text for people is truncated at its limit, between two characters") {
  rejected m;
  m.reason = {errc::internal, "x", {}};
  while (m.reason.message.size() < 2 * limits::reason_bytes_max)
    m.reason.message += "ü";
  auto back = through(m);
  REQUIRE(back);
  const auto& text = std::get<rejected>(*back).reason.message;
  CHECK(text.size() == limits::reason_bytes_max - 1);
  CHECK(m.reason.message.compare(0, text.size(), text) == 0);
}

TEST_CASE("draws under one constraint carry it once, and share it again after decoding") {
  const shared_constraint first =
      constraint{constraint_kind::json_schema, std::string(10'000, 'x')};
  const shared_constraint second = constraint{constraint_kind::regex, "a+"};
  micro_batch m;
  m.draws.resize(21);
  for (std::size_t i = 0; i < 20; ++i)
    m.draws[i].sampling.constraint = i % 2 == 0 ? first : second;
  CHECK(encode({}, m).body.size_bytes < 20'000);
  auto back = through(m);
  REQUIRE_MESSAGE(back, back.error().message);
  const auto& draws = std::get<micro_batch>(*back).draws;
  REQUIRE(draws.size() == 21);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(draws[i].sampling.constraint == m.draws[i].sampling.constraint);
    CHECK(draws[i].sampling.constraint.get() == draws[i % 2].sampling.constraint.get());
  }
  CHECK_FALSE(draws[20].sampling.constraint);
}
