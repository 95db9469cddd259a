// A packet from ZeroMQ: split, its envelope checked, its message read and written.
#include "schema/packet.hpp"

#include "tests/fuzz/input.hpp"
#include "tests/fuzz/round_trip.hpp"

#include <string>

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = unpack(data, size);
  if (!parts)
    return 0;
  const auto e = decode_envelope(parts->head);
  if (!e)
    return 0;
  const auto head = encode(*e, drain{}).head;
  auto expected = *e;
  expected.kind = kind_of(drain{});
  const auto again = decode_envelope(head);
  ENSURE(again && *again == expected, "the envelope changes when it is read again");
  fuzz::check_round_trip(*e, parts->body, parts->bulk);
  return 0;
}
