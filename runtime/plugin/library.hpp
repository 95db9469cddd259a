// A shared library that holds an engine: found, opened, and refused by name where it does not fit.
// Only shard processes and `cluster doctor` open one: what it brings along (drivers, half a
// gigabyte of torch) stays out of the others, and a fault in it ends a shard alone.
#pragma once

#include "runtime/plugin/abi.hpp"
#include "schema/result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace baton::plugin {

// "engine_torch.so"
std::string file_name_of(std::string_view engine);
// Where it is looked for, in this order: $BATON_ENGINES if it is set, else the folder of this
// program and `engines` beside it. Errors: not_found (names the folders).
result<std::filesystem::path> find_library(std::string_view engine);

// An open library. It is never closed: libtorch stays mapped anyway, and its threads with it.
class library {
public:
  // Errors: start_failed (the file cannot be loaded: what is missing; it is no engine),
  // version_mismatch (of another ABI).
  static result<library> open(const std::filesystem::path& file);

  const table& calls() const noexcept { return *table_; }
  const std::filesystem::path& path() const noexcept { return path_; }

private:
  library(std::filesystem::path path, const table* calls) : path_(std::move(path)), table_(calls) {}
  std::filesystem::path path_;
  const table* table_;
};

// What an engine has answered, in our terms: errors by their kind, with its name.
result<void> outcome_of(status s, const failure& why, std::string_view engine);

// Whether the device is there and all that it needs for a rank of so many, some of which may be on
// it as well: what an engine says of itself, for people. Errors: as library::open, and the
// engine's.
result<std::string> examine(const std::filesystem::path& file, const std::string& device,
                            std::uint32_t width = 1, std::uint32_t ranks_on_device = 1);

} // namespace baton::plugin
