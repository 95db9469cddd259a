// Numbers as the bytes of a tensor: little-endian, as in the protocols and on this machine.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

namespace baton::gateway {

static_assert(std::endian::native == std::endian::little, "the protocol's bytes are");

// Requires: data.size() >= sizeof(Number).
template <class Number>
Number number_at(std::string_view data) {
  Number number;
  std::memcpy(&number, data.data(), sizeof number);
  return number;
}

template <class Number>
void append_number(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

} // namespace baton::gateway
