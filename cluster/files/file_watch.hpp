// Detects changed files once they are stable, so a file, or a certificate and its key, is not read
// while it is being replaced.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace baton::cluster {

class file_watch {
public:
  // The initial state counts as no change. Symbolic links are followed.
  explicit file_watch(std::vector<std::filesystem::path> files);
  // Call at a regular interval. Returns true once per change, at the first call that sees the same
  // state as the call before. A removed file counts as changed.
  bool has_changed();

private:
  using stamp = std::optional<std::array<std::int64_t, 5>>; // none: no such file
  std::vector<stamp> look() const;

  std::vector<std::filesystem::path> files_;
  std::vector<stamp> reported_;
  std::vector<stamp> last_;
};

} // namespace baton::cluster
