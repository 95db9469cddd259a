// Digests of whole files: SHA-256 as LFS names a blob, and git's SHA-1 of one.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace baton::cluster {

// Called with the bytes read so far; false ends it.
using digest_progress = std::function<bool(std::uint64_t)>;

// 64 lower-case hex digits. Errors: io_failed, cancelled.
result<std::string> sha256_of_file(const std::filesystem::path& file, const digest_progress& on);
// 40 lower-case hex digits of "blob SIZE\0" and the bytes.
result<std::string> git_sha1_of_file(const std::filesystem::path& file, const digest_progress& on);

} // namespace baton::cluster
