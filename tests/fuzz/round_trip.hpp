// A message that was read from the wire can be written again with the same meaning.
#pragma once

#include "schema/codec/codec.hpp"

#include <cstring>

namespace baton::fuzz {

inline bool is_equal(const payload& a, const payload& b) {
  return a.size_bytes == b.size_bytes &&
         (a.size_bytes == 0 || std::memcmp(a.data, b.data, a.size_bytes) == 0);
}

inline void check_round_trip(const envelope& e, const payload& body, const payload& bulk) {
  const auto read = decode_body(e, body, bulk);
  if (!read) {
    ENSURE(read.error().code == errc::bad_frame, "refused by {}", row_of(read.error().code).name);
    return;
  }
  const auto written = encode(e, *read);
  const auto again = decode_body(e, written.body, written.bulk);
  ENSURE(again, "what was written is refused: {}", again.error().message);
  ENSURE(is_equal(encode(e, *again).body, written.body), "a {} changes when it is read again",
         name_of(e.kind));
  ENSURE(is_equal(written.bulk, bulk), "the activations of a {} change", name_of(e.kind));
}

} // namespace baton::fuzz
