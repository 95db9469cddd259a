// The file of API keys (gateway.api_keys): who may use the gateway, and how much. It holds no key,
// only the SHA-256 of each.
//
//   [[keys]]
//   name = "alice"
//   role = "user"                    # or "admin"
//   sha256 = ["9f86d0..."]           # two while a new key takes the place of an old one
//   requests_per_minute = 60         # none: no such bound
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

// A file without keys is one that lets nobody in. Errors: io_failed, bad_config, unknown_key;
// messages say file:line and the key.
result<std::vector<gateway::api_key>> load_api_keys(const std::filesystem::path& file);
// The same from text; `origin` stands in messages where the file's name would.
result<std::vector<gateway::api_key>> parse_api_keys(std::string_view text,
                                                     const std::string& origin);

// A new key: 256 random bits. "baton_" is for people and for scanners that look for secrets.
std::string make_api_key();
// The table of a key, as the file has it.
std::string api_key_table(const std::string& name, gateway::key_role role, const std::string& key);
// Adds the table to the file, in one step, or makes the file; mode 0600 then. Errors: those of
// load_api_keys, conflict (the name is taken), bad_config (the name cannot be one).
result<void> add_api_key(const std::filesystem::path& file, const std::string& name,
                         gateway::key_role role, const std::string& key);

} // namespace baton::cluster
