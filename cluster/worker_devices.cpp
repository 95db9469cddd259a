#include "cluster/worker_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace baton::cluster {

std::optional<std::string> visible_devices(const worker_config& worker, std::uint32_t number,
                                           const std::vector<std::string>& here) {
  if (worker.parallel == parallel_type::none)
    return std::nullopt;
  std::vector<std::string> from = here;
  if (worker.device_ids) {
    if (worker.device_ids->empty())
      return std::string(); // no GPU
    from.clear();
    for (const auto id : *worker.device_ids)
      from.push_back(std::to_string(id));
  }
  const auto groups = from.size() / worker.parallel_level;
  if (groups == 0)
    return std::nullopt;
  const auto first = from.begin() + static_cast<std::ptrdiff_t>(number % groups) *
                                        static_cast<std::ptrdiff_t>(worker.parallel_level);
  return fmt::format("{}", fmt::join(first, first + worker.parallel_level, ","));
}

std::vector<std::string> devices_here() {
  std::vector<std::string> found;
  if (const auto* said = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream words(said);
    for (std::string word; std::getline(words, word, ',');)
      found.push_back(word);
    return found;
  }
  std::error_code ignored;
  for (std::uint32_t i = 0; std::filesystem::exists(fmt::format("/dev/nvidia{}", i), ignored); ++i)
    found.push_back(std::to_string(i));
  return found;
}

} // namespace baton::cluster
