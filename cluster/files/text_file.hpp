// Small text files: replaced whole, and read by their first line.
#pragma once

#include "schema/result.hpp"

#include <filesystem>
#include <string>

namespace baton::cluster {

// Atomic: readers see the old or the new file, and two writers do not mix. The directory exists.
// Errors: io_failed.
result<void> replace_file(const std::filesystem::path& file, const std::string& text);

// Without its newline; empty if there is none, or no such file.
std::string first_line(const std::filesystem::path& file);

} // namespace baton::cluster
