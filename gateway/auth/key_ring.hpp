// The API keys that a gateway accepts: by name, with role and quotas. Only the SHA-256 of a key is
// kept. A key is 256 random bits, so a slow hash would protect nothing
// (docs/decisions/0016-api-keys.md). Pure; read from a file by cluster/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

using key_digest = std::array<std::uint8_t, 32>; // SHA-256

key_digest digest_of_key(std::string_view key) noexcept;
// Reads 64 hex digits in lower case.
std::optional<key_digest> digest_from_hex(std::string_view hex) noexcept;
std::string hex_of(const key_digest& digest);
// The key in the value of an Authorization header, "Bearer KEY" (RFC 6750); empty: there is none.
std::string_view bearer_key(std::string_view authorization) noexcept;

enum class key_role : std::uint8_t {
  user, // sends requests
  admin // also sees the operator's routes
};

// 0: no such bound.
struct key_quotas {
  std::uint32_t requests_per_minute = 0;
  std::uint32_t concurrent_requests = 0;
  std::uint64_t tokens_per_minute = 0; // of prompts and answers

  friend bool operator==(const key_quotas&, const key_quotas&) = default;
};

struct api_key {
  std::string name;                // [A-Za-z0-9._-], unique
  std::vector<key_digest> digests; // more than one while the key is being rotated
  key_role role = key_role::user;
  key_quotas quotas;
};

class key_ring {
public:
  // Requires: names and digests are unique.
  explicit key_ring(std::vector<api_key> keys) : keys_(std::move(keys)) {}
  const std::vector<api_key>& keys() const noexcept { return keys_; }
  // Index of the key with this digest. Compares with all of them, each in constant time, so that
  // timing reveals nothing (CVE-2025-59425).
  std::optional<std::size_t> find(const key_digest& digest) const noexcept;

private:
  std::vector<api_key> keys_;
};

} // namespace baton::gateway
