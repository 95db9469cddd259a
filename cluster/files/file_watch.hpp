// Notices that files were changed, once they have come to rest: somebody who writes a file, or
// exchanges a certificate and then its key, is not read halfway.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace baton::cluster {

class file_watch {
public:
  // As they are now is no change. A symbolic link is followed.
  explicit file_watch(std::vector<std::filesystem::path> files);
  // To be called at an even interval. True once after each change, at the first call that finds all
  // as the one before did; a file that is gone is changed, too.
  bool has_changed();

private:
  using stamp = std::optional<std::array<std::int64_t, 5>>; // none: no such file
  std::vector<stamp> look() const;

  std::vector<std::filesystem::path> files_;
  std::vector<stamp> told_;
  std::vector<stamp> last_;
};

} // namespace baton::cluster
