#include "cluster/files/file_watch.hpp"

#include <sys/stat.h>

#include <utility>

namespace baton::cluster {

file_watch::file_watch(std::vector<std::filesystem::path> files)
    : files_(std::move(files)), reported_(look()), last_(reported_) {}

std::vector<file_watch::stamp> file_watch::look() const {
  std::vector<stamp> all;
  for (const auto& file : files_) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0)
      all.emplace_back();
    else
      all.push_back(std::array<std::int64_t, 5>{
          static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino),
          info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec});
  }
  return all;
}

bool file_watch::has_changed() {
  auto now = look();
  const bool rests = now == last_;
  last_ = std::move(now);
  if (!rests || last_ == reported_)
    return false;
  reported_ = last_;
  return true;
}

} // namespace baton::cluster
