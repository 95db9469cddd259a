#include "cluster/files/open_files.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr rlim_t enough = 1u << 20; // the default fs.nr_open of Linux

} // namespace

std::size_t use_all_open_files() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  const auto before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, enough));
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return before;
  return limit.rlim_cur;
}

} // namespace baton::cluster
