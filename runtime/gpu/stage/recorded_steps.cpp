#include "runtime/gpu/stage/recorded_steps.hpp"

#include <algorithm>
#include <bit>

namespace baton::gpu {

std::uint32_t recorded_size(std::uint32_t rows, std::uint32_t rows_max) {
  const auto most = std::min(rows_max, recorded_rows_max);
  if (rows > most)
    return 0;
  const std::uint32_t step = rows <= 64 ? 8 : 32;
  const auto size = rows <= 4 ? std::bit_ceil(rows) : (rows + step - 1) / step * step;
  return std::min(size, most);
}

void recorded_steps::run(std::uint32_t size, std::uint64_t memory,
                         const std::function<void()>& work) {
  if (memory != memory_)
    forget();
  memory_ = memory;
  if (!is_on_)
    return work();
  const auto [found, is_new] = sizes_.try_emplace(size);
  if (is_new) // the first run lets libraries choose kernels and allocate memory
    return work();
  if (!found->second)
    record(size, work);
  if (!is_on_)
    return work();
  found->second->replay();
}

// Waits until no recorded step is running.
void recorded_steps::forget() {
  if (sizes_.empty())
    return;
  on_.set_mark()->wait();
  sizes_.clear();
}

void recorded_steps::record(std::uint32_t size, const std::function<void()>& work) {
  try {
    sizes_[size] = on_.record(work);
    log_line_("recorded a step of " + std::to_string(size) + " rows");
  } catch (const std::exception& e) {
    is_on_ = false;
    forget();
    log_line_("recording of steps is now off, which makes them slower: a step of " +
              std::to_string(size) + " rows could not be recorded: " + meaning_of(e).text);
  }
}

} // namespace baton::gpu
