#include "cluster/files/incarnation_clock.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

namespace baton::cluster {
namespace {

// 0 if the file does not exist or holds something else.
std::uint64_t number_in(const run_dir& dir, const std::string& file) {
  const auto text = dir.read(file).value_or("");
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

} // namespace

incarnation_clock::incarnation_clock(run_dir dir, const std::string& issuer,
                                     std::function<std::uint64_t()> clock)
    : dir_(std::move(dir)), file_(issuer + ".life"), clock_(std::move(clock)),
      last_(number_in(dir_, file_)) {}

incarnation_id incarnation_clock::next() {
  std::lock_guard lock(mutex_);
  last_ = std::max(last_ + 1, clock_());
  if (auto noted = dir_.write(file_, std::to_string(last_)); !noted)
    spdlog::warn("{}: a clock that is set back would be believed", noted.error().message);
  return {last_};
}

} // namespace baton::cluster
