// Small text files: replaced whole, and read in part.
#pragma once

#include "schema/result.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace baton::cluster {

// Atomic: readers see the old or the new file, and two writers do not mix. The directory exists.
// Errors: io_failed.
result<void> replace_file(const std::filesystem::path& file, const std::string& text);

// Without its newline; empty if there is none, or no such file.
std::string first_line(const std::filesystem::path& file);

// At most that many bytes of its beginning; empty if it cannot be read.
std::string beginning_of(const std::filesystem::path& file, std::size_t bytes_max);

} // namespace baton::cluster
