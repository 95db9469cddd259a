#include "runtime/collective/group_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace baton::collective {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::uint64_t label_magic = 0x3170726F7267'4242; // changes with the layout

constexpr std::size_t flags_bytes(std::uint32_t width) {
  return (width * sizeof(rank_flags) + page_bytes - 1) / page_bytes * page_bytes;
}
constexpr std::size_t area_bytes(std::uint32_t width) {
  return flags_bytes(width) + width * 2 * slot_floats * sizeof(float);
}
static_assert(slot_floats * sizeof(float) % page_bytes == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share no lock");

error system_failure(const char* what) {
  return fail(errc::io_failed, "group memory: {}: {}", what, std::strerror(errno));
}

} // namespace

group_area::group_area(std::shared_ptr<const group_label> label, epoch_id epoch, void* mapping,
                       std::size_t size_bytes)
    : label_(std::move(label)), epoch_(epoch), mapping_(mapping), size_bytes_(size_bytes) {}

group_area::~group_area() {
  ::munmap(mapping_, size_bytes_);
}

float* group_area::slot(std::uint32_t rank, std::uint32_t which) const noexcept {
  auto* slots = reinterpret_cast<float*>(static_cast<std::byte*>(mapping_) + flags_bytes(width()));
  return slots + (std::size_t{rank} * 2 + which) * slot_floats;
}

group_memory::group_memory(group_memory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), label_(std::move(other.label_)) {}

group_memory& group_memory::operator=(group_memory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(label_, other.label_);
  return *this;
}

group_memory::~group_memory() {
  if (fd_ >= 0)
    ::close(fd_);
}

result<void> group_memory::map_label() {
  static_assert(sizeof(group_label) <= page_bytes);
  void* mapping = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapping == MAP_FAILED)
    return system_failure("mmap");
  label_ = {static_cast<group_label*>(mapping), [](group_label* l) { ::munmap(l, page_bytes); }};
  return {};
}

result<group_memory> group_memory::create(int fd, std::uint32_t width) {
  if (width < 1 || width > ranks_max)
    return fail_param(errc::invalid_value, "width", "a group has 1 to {} ranks, not {}", ranks_max,
                      width);
  group_memory made;
  made.fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (made.fd_ < 0)
    return system_failure("dup");
  // Truncated first, so that all bytes are zero.
  if (::ftruncate(made.fd_, 0) != 0 || ::ftruncate(made.fd_, page_bytes) != 0)
    return system_failure("ftruncate");
  if (auto ok = made.map_label(); !ok)
    return ok.error();
  made.label_->width = width;
  made.label_->slot_floats = slot_floats;
  made.label_->magic = label_magic;
  return made;
}

result<group_memory> group_memory::map(int fd) {
  group_memory made;
  made.fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (made.fd_ < 0)
    return system_failure("dup");
  struct stat facts {};
  if (::fstat(made.fd_, &facts) != 0)
    return system_failure("fstat");
  if (facts.st_size < static_cast<off_t>(page_bytes))
    return fail(errc::version_mismatch, "a file of {} bytes is not a group memory", facts.st_size);
  if (auto ok = made.map_label(); !ok)
    return ok.error();
  const group_label& found = *made.label_;
  if (found.magic != label_magic || found.slot_floats != slot_floats || found.width < 1 ||
      found.width > ranks_max)
    return fail(errc::version_mismatch, "not a group memory, or that of another build");
  return made;
}

result<void> group_memory::open_epoch(epoch_id epoch) {
  const std::uint64_t newest = label_->newest.load();
  if (epoch.value <= newest)
    return fail(errc::stale_epoch, "epoch {} of a group comes after epoch {}", epoch.value, newest);
  close_epoch();
  const std::uint64_t index = newest == 0 ? 0 : label_->area.load() + 1;
  const auto begin = static_cast<off_t>(page_bytes + index * area_bytes(width()));
  const auto size = static_cast<off_t>(area_bytes(width()));
  if (::ftruncate(fd_, begin + size) != 0)
    return system_failure("ftruncate");
  // Releases the areas of earlier epochs. If the system refuses, only memory is wasted.
  if (index > 0)
    static_cast<void>(::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page_bytes,
                                  begin - static_cast<off_t>(page_bytes)));
  label_->area.store(index);
  label_->newest.store(epoch.value);
  label_->epoch.store(epoch.value);
  return {};
}

// The index is valid if the epoch was open before and after reading it: it changes only between
// epochs.
result<std::shared_ptr<const group_area>> group_memory::area_of(epoch_id wanted) const {
  const epoch_id before = epoch();
  const std::uint64_t index = label_->area.load();
  if (wanted.value == 0 || before != wanted || epoch() != wanted)
    return fail(errc::stale_epoch, "epoch {} of a group was requested, but {} is open",
                wanted.value, before.value);
  const std::size_t size = area_bytes(width());
  void* mapping = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                         static_cast<off_t>(page_bytes + index * size));
  if (mapping == MAP_FAILED)
    return fail(errc::does_not_fit, "cannot map the {} bytes of a group memory", size);
  return std::make_shared<const group_area>(label_, wanted, mapping, size);
}

} // namespace baton::collective
