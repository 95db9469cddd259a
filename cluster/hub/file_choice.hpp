// Which files of a repository are the model. Pure.
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

struct hub_file {
  std::string path; // in the repository, with slashes
  std::uint64_t bytes = 0;
  std::string oid;      // git's SHA-1 of the blob, 40 hex digits; empty: unknown
  std::string sha256{}; // of files in LFS, 64 hex digits; empty: the file is in git itself
};

struct file_choice {
  std::vector<hub_file> files;
  std::string gguf; // it, or the first of its parts; empty: a directory of safetensors
  std::string why;  // a sentence for people
  std::vector<std::string> notes; // what was left aside, and why

  std::uint64_t bytes() const noexcept;
};

// A machine's memory, for the choice of a file.
struct memory_room {
  std::uint64_t available = 0;
  std::uint64_t file_bytes_max = 0; // the largest file that runs in it, beside its KV cache
};

// `quant`: "Q4_K_M" in any case, or a file's path. If it is empty, the choice is the file nearest
// to Q4_K_M among those that run here and fit into `room`; the table in file_choice.cpp has the
// order. Without a room every file fits. A quantization that is asked for, and a directory of
// safetensors, is chosen even if it does not fit, with a note. Errors: not_found (no such
// quantization, or no model at all), unsupported_model (only files that do not run here),
// does_not_fit (names the smallest file and the memory). A model in several parts is chosen like a
// file, with all of them; one that lacks some is not.
result<file_choice> choose_files(const std::vector<hub_file>& all, const std::string& quant,
                                 const std::optional<memory_room>& room = std::nullopt);

// The quantization in a GGUF file's name, in upper case; empty: none that is known.
std::string quant_of_name(const std::string& path);

// Whether the path of a server may become one below a directory: relative, without "..".
bool is_file_path(const std::string& path) noexcept;

} // namespace baton::cluster
