// The file of API keys (gateway.api_keys): who may use the gateway, and how much. It holds no keys,
// only the SHA-256 of each. Example:
//
//   [[keys]]
//   name = "alice"
//   role = "user"                    # "admin"
//   sha256 = ["9f86d0..."]           # two for rotation
//   requests_per_minute = 60         # optional
//   concurrent_requests = 4
//   tokens_per_minute = 100000
#pragma once

#include "gateway/auth/key_ring.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

// A file without keys admits no client. Errors: io_failed, bad_config, unknown_key; messages
// contain file:line and the key.
result<std::vector<gateway::api_key>> load_api_keys(const std::filesystem::path& file);
// The same from text; `origin` replaces the file's name in messages.
result<std::vector<gateway::api_key>> parse_api_keys(std::string_view text,
                                                     const std::string& origin);

// A new key: 256 random bits. The prefix "baton_" helps people and secret scanners recognize it.
std::string make_api_key();
// The TOML table of a key.
std::string api_key_table(const std::string& name, gateway::key_role role, const std::string& key);
// Adds the table to the file atomically, or creates the file with mode 0600. Errors: those of
// load_api_keys, conflict (the name is taken), bad_config (the name is not valid).
result<void> add_api_key(const std::filesystem::path& file, const std::string& name,
                         gateway::key_role role, const std::string& key);

} // namespace baton::cluster
