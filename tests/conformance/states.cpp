// The slots of recurrent states: a step reads one and writes another, and changes nothing else.
#include "tests/conformance/pipeline.hpp"

#include <doctest/doctest.h>

namespace baton::conformance {
namespace {

// A step from one slot to another.
struct hop {
  std::uint32_t from = 0, to = 0;
};

class slot_runner {
public:
  explicit slot_runner(pipeline& p) : p_(p) {}
  micro_batch batch_of(const std::vector<piece>& pieces, const std::vector<hop>& hops) {
    auto batch = p_.batch_of(pieces);
    for (std::size_t i = 0; i < hops.size(); ++i) {
      batch.slices[i].state_from = hops[i].from;
      batch.slices[i].state_to = hops[i].to;
    }
    return batch;
  }
  std::vector<distribution> step(const std::vector<piece>& pieces, const std::vector<hop>& hops) {
    const auto samples = p_.run(batch_of(pieces, hops));
    REQUIRE_MESSAGE(samples, samples.error().message);
    return p_.distributions_of(*samples);
  }

private:
  pipeline& p_;
};

void check_refusals(pipeline& p, const micro_batch& good, std::uint32_t slots) {
  const auto refused = [&](const char* what, const std::function<void(slice&)>& change) {
    auto bad = good;
    change(bad.slices[0]);
    CAPTURE(what);
    const auto out = p.run(bad);
    REQUIRE(!out);
    CHECK(out.error().code == errc::invalid_value);
  };
  refused("no slot to write", [](slice& s) { s.state_to = 0; });
  refused("the slot it reads", [](slice& s) { s.state_to = s.state_from; });
  refused("a slot beyond the last", [&](slice& s) { s.state_to = slots + 1; });
  refused("to read beyond the last", [&](slice& s) { s.state_from = slots + 1; });
  refused("the zero state behind rows", [](slice& s) { s.state_from = 0; });
  refused("drafts", [](slice& s) {
    s.samples = true;
    s.drafts = 1;
  });
}

} // namespace

// Engines without states have nothing to keep.
void states_are_in_slots(const subject& s) {
  for (const std::vector<std::uint32_t>& cuts : {std::vector<std::uint32_t>{}, {1}}) {
    pipeline p(s, cuts);
    const auto& l = p.limits();
    if (l.state_slots == 0)
      return;
    REQUIRE(l.state_slots >= 8);
    const auto tokens = some_tokens(l, length_of(l)), other = some_tokens(l, length_of(l), 1);
    const auto length = static_cast<std::uint32_t>(tokens.size());
    const auto half = length / 2;
    const auto own = consecutive(0, 3), others = consecutive(4, 3), third = consecutive(8, 3);
    const auto expected = pipeline(s).last_of(tokens, own, {half, length});
    const auto expected_other = pipeline(s).last_of(other, others, {length});
    const piece head{&tokens, 0, half, own}, tail{&tokens, half, length - half, own};
    const piece guest{&other, 0, length, others, true, 0, 2};
    slot_runner run(p);
    // Any slots, beside another sequence that begins with the zero state.
    run.step({head}, {{0, l.state_slots}});
    const auto both = run.step({guest, tail}, {{0, 2}, {l.state_slots, 5}});
    check_near(s, expected_other, both[0]);
    check_near(s, expected, both[1]);
    // Again from the same slot, into the same one and into another.
    check_near(s, expected, run.step({tail}, {{l.state_slots, 5}}).front());
    check_near(s, expected, run.step({tail}, {{l.state_slots, 7}}).front());
    // Row by row there and back between two slots, of which one had another's state.
    run.step({{&tokens, half, 1, own}}, {{l.state_slots, 2}});
    distribution last;
    for (std::uint32_t at = half + 1, odd = 0; at < length; ++at, odd ^= 1U)
      last = run.step({{&tokens, at, 1, own}}, {odd != 0 ? hop{3, 2} : hop{2, 3}}).front();
    check_near(s, expected, last);
    // Two sequences continue from one state, in one step and in a later one, with their own tokens.
    auto changed = tokens;
    for (auto i = half; i < length; ++i)
      changed[i] = tokens[length - 1 - (i - half)];
    const auto expected_changed = pipeline(s).last_of(changed, own, {length});
    run.step({{&tokens, 0, half, third, true, 0, 3}}, {{0, 6}}); // their blocks are not shared
    const piece branch{&changed, half, length - half, third, true, 0, 3};
    const auto branches = run.step({tail, branch}, {{l.state_slots, 1}, {l.state_slots, 4}});
    check_near(s, expected, branches[0]);
    check_near(s, expected_changed, branches[1]);
    check_near(s, expected_changed, run.step({branch}, {{6, 4}}).front());
    check_near(s, expected, run.step({tail}, {{l.state_slots, 1}}).front());
    check_refusals(p, run.batch_of({tail}, {{l.state_slots, 1}}), l.state_slots);
    check_near(s, expected, run.step({tail}, {{l.state_slots, 1}}).front());
  }
}

} // namespace baton::conformance
