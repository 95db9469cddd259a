// A directory for one test, removed with its contents at the end.
#pragma once

#include "schema/ensure.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace baton::testing {

class scratch_directory {
public:
  scratch_directory() {
    auto pattern = (std::filesystem::temp_directory_path() / "baton-test-XXXXXX").string();
    ENSURE(::mkdtemp(pattern.data()) != nullptr, "no scratch directory at {}", pattern);
    path_ = pattern;
  }
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

private:
  std::filesystem::path path_;
};

} // namespace baton::testing
