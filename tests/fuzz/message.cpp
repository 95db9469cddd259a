// The body of a message; its file identifier ("BT07") gives the kind.
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/round_trip.hpp"

#include <memory>
#include <string>

using namespace baton;

namespace {

constexpr std::size_t identifier_at = 4; // behind the offset of the root table

message_kind kind_by_identifier(std::string_view body) {
  if (body.size() < identifier_at + 4 || !body.substr(identifier_at).starts_with("BT"))
    return {};
  const auto digit = [&](std::size_t at) { return body[identifier_at + at] - '0'; };
  return message_kind{static_cast<std::uint16_t>(digit(2) * 10 + digit(3))};
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy, so that a read past the end is detected and the alignment is not libFuzzer's.
  const auto copy = std::make_shared<const std::string>(fuzz::text_of(data, size));
  envelope e;
  e.kind = kind_by_identifier(*copy);
  if (name_of(e.kind) != "unknown")
    fuzz::check_round_trip(e, {copy, reinterpret_cast<const std::byte*>(copy->data()), size}, {});
  return 0;
}
