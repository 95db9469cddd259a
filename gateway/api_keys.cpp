#include "gateway/api_keys.hpp"

#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::string_view scheme = "bearer "; // RFC 6750; scheme names ignore case

bool has_scheme(std::string_view text) noexcept {
  return text.size() > scheme.size() &&
         std::equal(scheme.begin(), scheme.end(), text.begin(), [](char want, char got) {
           return want == (got >= 'A' && got <= 'Z' ? static_cast<char>(got - 'A' + 'a') : got);
         });
}

} // namespace

api_keys::api_keys(const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    digests_.push_back(digest_of(key));
  }
}

api_keys::digest api_keys::digest_of(std::string_view text) noexcept {
  digest out{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

// Requires: has_scheme(authorization).
std::string_view api_keys::key_in(std::string_view authorization) noexcept {
  auto key = authorization.substr(scheme.size());
  while (!key.empty() && key.front() == ' ') {
    key.remove_prefix(1);
  }
  return key;
}

std::string api_keys::caller(std::string_view authorization) const {
  if (is_open()) {
    return {};
  }
  const auto full = digest_of(key_in(authorization));
  constexpr std::size_t bytes = 16; // no two keys meet in so many
  return fmt::format("{:02x}", fmt::join(full.begin(), full.begin() + bytes, ""));
}

bool api_keys::accepts(std::string_view authorization) const noexcept {
  if (is_open()) {
    return true;
  }
  if (!has_scheme(authorization)) {
    return false;
  }
  const auto got = digest_of(key_in(authorization));
  int found = 0;
  for (const auto& want : digests_) { // no early exit
    found |= CRYPTO_memcmp(want.data(), got.data(), want.size()) == 0 ? 1 : 0;
  }
  return found != 0;
}

} // namespace baton::gateway
