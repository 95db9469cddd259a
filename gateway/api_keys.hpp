// The one authentication gate: is this bearer token one of the configured keys? Keys are kept as
// SHA-256 and compared in constant time, all of them, so that time says nothing (CVE-2025-59425).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

class api_keys {
public:
  explicit api_keys(const std::vector<std::string>& keys);
  bool is_open() const noexcept { return digests_.empty(); } // no keys: no authentication
  // `authorization`: the header's value, "Bearer KEY".
  bool accepts(std::string_view authorization) const noexcept;
  // Whose request this is, without saying the key: the same for the same key on every gateway.
  // Empty without keys. Requires: accepts(authorization).
  std::string caller(std::string_view authorization) const;

private:
  using digest = std::array<std::uint8_t, 32>;
  static digest digest_of(std::string_view text) noexcept;
  static std::string_view key_in(std::string_view authorization) noexcept;
  std::vector<digest> digests_;
};

} // namespace baton::gateway
