// The directory in which huggingface_hub keeps repositories; each of the two finds the other's
// files (huggingface.co/docs/huggingface_hub/guides/manage-cache):
//
//   models--ORG--REPO/refs/REVISION            the commit, 40 hex digits
//   models--ORG--REPO/snapshots/COMMIT/FILE    a relative link to ../../blobs/ETAG
//   models--ORG--REPO/blobs/ETAG               the bytes
//   .locks/models--ORG--REPO/ETAG.lock         flock while a blob is written
//
// An unfinished blob has a name of its own (ETAG.baton-incomplete): its parts arrive in any order,
// and huggingface_hub would append to a file ETAG.incomplete from its end.
#pragma once

#include "cluster/hub/file_choice.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// Holds a flock until the end of its life.
class file_lock {
public:
  // Waits until `patience` is over. Errors: conflict (another process holds it), io_failed.
  static result<file_lock> take(const std::filesystem::path& file, std::chrono::seconds patience);
  file_lock(file_lock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;
  ~file_lock();

private:
  explicit file_lock(int descriptor) noexcept : descriptor_(descriptor) {}
  int descriptor_;
};

struct cached_snapshot {
  std::string repository; // "ORG/REPO"
  std::string commit;
  std::vector<std::string> revisions; // that refer to it
  std::vector<hub_file> files;        // whose bytes are there; without oids
};

struct removed_files {
  std::size_t links = 0;
  std::uint64_t bytes = 0; // of blobs that nothing else links
};

// All methods are const: the state is the directory. Its names come from servers; the caller has
// checked them with the functions below.
class hub_cache {
public:
  explicit hub_cache(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const noexcept { return root_; }
  std::filesystem::path repository(const std::string& id) const;
  std::filesystem::path blob(const std::string& id, const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& id, const std::string& commit) const;
  std::filesystem::path lock_file(const std::string& id, const std::string& etag) const;

  // Makes FILE of the snapshot a link to the blob; replaces what is there. Errors: io_failed.
  result<void> link(const std::string& id, const std::string& commit, const std::string& file,
                    const std::string& etag) const;
  // Errors: io_failed.
  result<void> set_revision(const std::string& id, const std::string& revision,
                            const std::string& commit) const;
  // The commit of a branch or tag, or of a commit itself, as of the last download.
  std::optional<std::string> commit_of(const std::string& id, const std::string& revision) const;
  // Files of a snapshot whose bytes are there, ordered by path.
  std::vector<hub_file> files(const std::string& id, const std::string& commit) const;
  // Every snapshot of a model, ordered by repository and commit.
  std::vector<cached_snapshot> snapshots() const;

  // Removes these links from the snapshot, the blobs that no other snapshot of the repository
  // links, and what is empty then. Errors: io_failed.
  result<removed_files> remove(const cached_snapshot& from) const;

private:
  std::vector<std::string> revisions_of(const std::string& id, const std::string& commit) const;
  std::filesystem::path root_;
};

bool is_commit(const std::string& text) noexcept; // 40 hex digits
bool is_etag(const std::string& text) noexcept;   // a file's name
// W/"abc" -> abc
std::string bare_etag(std::string_view header);

} // namespace baton::cluster
