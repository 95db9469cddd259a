#include "gateway/auth/key_ring.hpp"

#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

namespace baton::gateway {
namespace {

constexpr std::string_view bearer_scheme = "bearer "; // names of schemes ignore case
constexpr std::string_view hex_digits = "0123456789abcdef";

bool has_scheme(std::string_view text) noexcept {
  return text.size() > bearer_scheme.size() &&
         std::equal(
             bearer_scheme.begin(), bearer_scheme.end(), text.begin(), [](char want, char got) {
               return want == (got >= 'A' && got <= 'Z' ? static_cast<char>(got - 'A' + 'a') : got);
             });
}

} // namespace

key_digest digest_of_key(std::string_view key) noexcept {
  key_digest out{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

std::optional<key_digest> digest_from_hex(std::string_view hex) noexcept {
  key_digest out{};
  if (hex.size() != 2 * out.size() || hex.find_first_not_of(hex_digits) != std::string_view::npos) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::uint8_t>((hex_digits.find(hex[2 * i]) << 4) |
                                       hex_digits.find(hex[2 * i + 1]));
  }
  return out;
}

std::string hex_of(const key_digest& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string_view bearer_key(std::string_view authorization) noexcept {
  if (!has_scheme(authorization)) {
    return {};
  }
  auto key = authorization.substr(bearer_scheme.size());
  key.remove_prefix(std::min(key.find_first_not_of(' '), key.size()));
  return key;
}

std::optional<std::size_t> key_ring::find(const key_digest& digest) const noexcept {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    for (const auto& known : keys_[i].digests) { // no early exit
      if (CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0) {
        found = i;
      }
    }
  }
  return found;
}

} // namespace baton::gateway
