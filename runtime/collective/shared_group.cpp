#include "runtime/collective/shared_group.hpp"

namespace baton::collective {

result<std::shared_ptr<shared_group>>
shared_group::join(int fd, std::uint32_t rank, std::uint32_t width, shared_options options) {
  auto memory = group_memory::map(fd);
  if (!memory)
    return memory.error();
  if (memory->width() != width || rank >= width)
    return fail(errc::invalid_value, "rank {} of {} joins a group of {}", rank, width,
                memory->width());
  auto ranks = std::make_shared<shared_collective>(rank, width, options);
  return std::shared_ptr<shared_group>(new shared_group(*std::move(memory), std::move(ranks)));
}

result<void> shared_group::enter(epoch_id epoch) {
  if (ranks_->rank() == 0)
    if (auto ok = memory_.open_epoch(epoch); !ok)
      return ok;
  auto area = memory_.area_of(epoch);
  if (!area)
    return area.error();
  return ranks_->enter(*std::move(area));
}

} // namespace baton::collective
