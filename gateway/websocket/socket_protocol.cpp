#include "gateway/websocket/socket_protocol.hpp"

#include "gateway/base/http_header.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::string_view key_prefix = "bearer.";
constexpr std::string_view blanks = " \t";

// Removes the next element from the list and returns it.
std::string_view take_next(std::string_view& list) noexcept {
  const auto end = std::min(list.find(','), list.size());
  auto one = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  one.remove_prefix(std::min(one.find_first_not_of(blanks), one.size()));
  return one.substr(0, one.find_last_not_of(blanks) + 1);
}

} // namespace

bool offers_protocol(std::string_view offered) noexcept {
  while (!offered.empty()) {
    if (take_next(offered) == socket_protocol) {
      return true;
    }
  }
  return false;
}

std::string key_of_offer(std::string_view offered) {
  while (!offered.empty()) {
    const auto one = take_next(offered);
    if (one.starts_with(key_prefix)) {
      return percent_decoded(one.substr(key_prefix.size())).value_or("");
    }
  }
  return {};
}

} // namespace baton::gateway
