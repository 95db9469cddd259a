#include "cluster/hub/hub_cache.hpp"

#include "cluster/files/files_below.hpp"
#include "cluster/files/text_file.hpp"
#include "cluster/hub/model_reference.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

namespace baton::cluster {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view folder_prefix = "models--";
constexpr std::string_view separator = "--";
constexpr std::string_view locks_folder = ".locks";
constexpr std::size_t commit_digits = 40, etag_bytes_max = 128;
constexpr std::chrono::milliseconds lock_look_interval{100};

bool is_hex(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

error io_error(const fs::path& path, const std::string& why) {
  return fail(errc::io_failed, "{}: {}", path.string(), why);
}

// `id`: "ORG/REPO"
std::string folder_of(const std::string& id) {
  const auto slash = id.find('/');
  ENSURE(slash != id.npos, "'{}' is no repository", id);
  return fmt::format("{}{}{}{}", folder_prefix, id.substr(0, slash), separator,
                     id.substr(slash + 1));
}

// "ORG/REPO"; empty: it is no repository of a model.
std::string id_of_folder(const std::string& name) {
  if (!name.starts_with(folder_prefix))
    return {};
  auto id = name.substr(folder_prefix.size());
  const auto at = id.find(separator);
  if (at == id.npos)
    return {};
  id.replace(at, separator.size(), "/");
  return is_repository_id(id) ? id : std::string();
}

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> all;
  std::error_code failed;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end;
       at.increment(failed))
    all.push_back(at->path());
  std::sort(all.begin(), all.end());
  return all;
}

// The bytes that a link of a snapshot leads to; empty: they are missing.
fs::path bytes_of(const fs::path& link) {
  std::error_code failed;
  auto path = fs::canonical(link, failed);
  return failed ? fs::path() : path;
}

void remove_empty(const fs::path& directory) {
  std::error_code ignored;
  std::vector<fs::path> folders;
  for (fs::recursive_directory_iterator at(directory, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    std::error_code unknown;
    if (at->is_directory(unknown) && !at->is_symlink(unknown))
      folders.push_back(at->path());
  }
  for (auto at = folders.rbegin(); at != folders.rend(); ++at) // children before their parents
    rmdir(at->c_str());
  rmdir(directory.c_str());
}

} // namespace

bool is_commit(const std::string& text) noexcept {
  return text.size() == commit_digits && std::all_of(text.begin(), text.end(), is_hex);
}

bool is_etag(const std::string& text) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  };
  return !text.empty() && text.size() <= etag_bytes_max &&
         std::all_of(text.begin(), text.end(), is_allowed);
}

std::string bare_etag(std::string_view header) {
  if (header.starts_with("W/"))
    header.remove_prefix(2);
  if (header.size() >= 2 && header.front() == '"' && header.back() == '"')
    header = header.substr(1, header.size() - 2);
  return std::string(header);
}

result<file_lock> file_lock::take(const fs::path& file, std::chrono::seconds patience) {
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  if (failed)
    return io_error(file.parent_path(), failed.message());
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664); // as huggingface_hub
    if (fd < 0)
      return io_error(file, std::strerror(errno));
    file_lock lock(fd);
    struct stat info {};
    // The last owner may have unlinked it meanwhile (filelock of Python does).
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0)
      return lock;
    if (std::chrono::steady_clock::now() >= until)
      return fail(errc::conflict, "another process downloads this file: it holds {}",
                  file.string());
    std::this_thread::sleep_for(lock_look_interval);
  }
}

file_lock::~file_lock() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

fs::path hub_cache::repository(const std::string& id) const {
  return root_ / folder_of(id);
}
fs::path hub_cache::blob(const std::string& id, const std::string& etag) const {
  return repository(id) / "blobs" / etag;
}
fs::path hub_cache::snapshot(const std::string& id, const std::string& commit) const {
  return repository(id) / "snapshots" / commit;
}
fs::path hub_cache::lock_file(const std::string& id, const std::string& etag) const {
  return root_ / locks_folder / folder_of(id) / (etag + ".lock");
}

result<void> hub_cache::link(const std::string& id, const std::string& commit,
                             const std::string& file, const std::string& etag) const {
  const auto at = snapshot(id, commit) / file;
  std::error_code failed;
  fs::create_directories(at.parent_path(), failed);
  if (failed)
    return io_error(at.parent_path(), failed.message());
  const auto target = fs::relative(blob(id, etag).parent_path(), at.parent_path(), failed) / etag;
  if (failed)
    return io_error(at, failed.message());
  if (fs::is_symlink(at, failed) && fs::read_symlink(at, failed) == target)
    return {};
  const auto fresh = fs::path(at.string() + fmt::format(".{}.new", getpid()));
  fs::remove(fresh, failed);
  fs::create_symlink(target, fresh, failed);
  if (!failed)
    fs::rename(fresh, at, failed);
  return failed ? result<void>(io_error(at, failed.message())) : result<void>();
}

result<void> hub_cache::set_revision(const std::string& id, const std::string& revision,
                                     const std::string& commit) const {
  if (revision == commit)
    return {};
  const auto file = repository(id) / "refs" / revision;
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  return failed ? io_error(file.parent_path(), failed.message()) : replace_file(file, commit);
}

std::optional<std::string> hub_cache::commit_of(const std::string& id,
                                                const std::string& revision) const {
  std::error_code failed;
  auto commit = first_line(repository(id) / "refs" / revision);
  if (is_commit(commit))
    return commit;
  if (is_commit(revision) && fs::is_directory(snapshot(id, revision), failed))
    return revision;
  return std::nullopt;
}

std::vector<hub_file> hub_cache::files(const std::string& id, const std::string& commit) const {
  std::vector<hub_file> all;
  const auto base = snapshot(id, commit);
  for (const auto& path : files_below(base)) {
    std::error_code failed;
    const auto bytes = fs::file_size(path, failed);
    if (!failed)
      all.push_back({path.lexically_relative(base).string(), bytes, {}, {}});
  }
  return all;
}

std::vector<std::string> hub_cache::revisions_of(const std::string& id,
                                                 const std::string& commit) const {
  std::vector<std::string> all;
  const auto refs = repository(id) / "refs";
  for (const auto& path : files_below(refs))
    if (first_line(path) == commit)
      all.push_back(path.lexically_relative(refs).string());
  return all;
}

std::vector<cached_snapshot> hub_cache::snapshots() const {
  std::vector<cached_snapshot> all;
  for (const auto& folder : entries_of(root_)) {
    const auto id = id_of_folder(folder.filename().string());
    if (id.empty())
      continue;
    for (const auto& path : entries_of(folder / "snapshots"))
      if (const auto commit = path.filename().string(); is_commit(commit))
        all.push_back({id, commit, revisions_of(id, commit), files(id, commit)});
  }
  return all;
}

result<removed_files> hub_cache::remove(const cached_snapshot& from) const {
  removed_files removed;
  const auto base = repository(from.repository);
  const auto own = snapshot(from.repository, from.commit);
  const auto blobs = bytes_of(base / "blobs");
  std::set<fs::path> unlinked;
  std::error_code failed;
  for (const auto& file : from.files) {
    auto bytes = bytes_of(own / file.path);
    if (!fs::remove(own / file.path, failed) && failed)
      return io_error(own / file.path, failed.message());
    ++removed.links;
    if (!blobs.empty() && bytes.parent_path() == blobs)
      unlinked.insert(std::move(bytes));
  }
  for (const auto& path : files_below(base / "snapshots"))
    unlinked.erase(bytes_of(path));
  for (const auto& path : unlinked) {
    const auto bytes = fs::file_size(path, failed);
    if (!fs::remove(path, failed))
      return io_error(path, failed.message());
    removed.bytes += bytes;
  }
  remove_empty(own);
  if (!fs::exists(own, failed)) {
    for (const auto& revision : revisions_of(from.repository, from.commit))
      fs::remove(base / "refs" / revision, failed);
    fs::remove_all(base / ".no_exist" / from.commit, failed);
  }
  remove_empty(base / "refs");
  if (entries_of(base / "snapshots").empty()) { // what is left are unfinished downloads
    fs::remove_all(base, failed);
    fs::remove_all(lock_file(from.repository, "x").parent_path(), failed);
  }
  return removed;
}

} // namespace baton::cluster
