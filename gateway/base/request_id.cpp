#include "gateway/base/request_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace baton::gateway {

bool is_request_id(std::string_view given) noexcept {
  const auto is_plain = [](char c) {
    return c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '\\';
  };
  return !given.empty() && given.size() <= request_id_bytes_max &&
         std::all_of(given.begin(), given.end(), is_plain);
}

std::string new_request_id() {
  thread_local std::mt19937_64 draw = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return fmt::format("{:016x}{:016x}", std::uint64_t{draw()}, std::uint64_t{draw()});
}

std::string request_id_of(std::string_view given) {
  return is_request_id(given) ? std::string(given) : new_request_id();
}

} // namespace baton::gateway
