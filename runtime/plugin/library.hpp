// A shared library that contains an engine: finding, opening and checking it. Only shard processes
// and `cluster doctor` open one. Other processes stay free of its dependencies (drivers, half a
// gigabyte of torch), and a fault in it ends only the shard.
#pragma once

#include "runtime/plugin/abi.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace baton::plugin {

// "engine_torch.so"
std::string file_name_of(std::string_view engine);
// Searches library_folders() of $BATON_ENGINES and `engines`.
// Errors: not_found (names the folders).
result<std::filesystem::path> find_library(std::string_view engine);

// An open library. It is never closed, because libtorch and its threads stay mapped anyway.
class library {
public:
  // Errors: start_failed (the file cannot be loaded, with the reason; or it is not an engine),
  // version_mismatch (another ABI version).
  static result<library> open(const std::filesystem::path& file);

  const table& calls() const noexcept { return *table_; }
  const std::filesystem::path& path() const noexcept { return path_; }

private:
  library(std::filesystem::path path, const table* calls) : path_(std::move(path)), table_(calls) {}
  std::filesystem::path path_;
  const table* table_;
};

// Converts an engine's status to our error type; the message names the engine.
result<void> outcome_of(status s, const failure& why, std::string_view engine);

// Checks that the device and its dependencies are present for a rank of `width`, some of which may
// share the device. Returns the engine's description for people. Errors: as library::open, and the
// engine's own.
result<std::string> examine(const std::filesystem::path& file, const std::string& device,
                            std::uint32_t width = 1, std::uint32_t ranks_on_device = 1);

} // namespace baton::plugin
