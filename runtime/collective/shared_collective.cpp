// The rendezvous, and the operations on values between them.
#include "runtime/collective/shared_collective.hpp"

#include "runtime/collective/hand_over.hpp"
#include "schema/ensure.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <numeric>
#include <utility>

namespace baton::collective {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto spin_time = std::chrono::microseconds(50);
// Between reads of the clock; a pause is 40 to 140 cycles.
constexpr int pauses_per_look = 32;
// The longest sleep before a rank checks that the others live and the epoch is open.
constexpr std::chrono::nanoseconds sleep_time_max = std::chrono::milliseconds(20);
// Up to this size one rendezvous is cheaper than two with half of the reading.
constexpr std::size_t at_once_floats = std::size_t{16} << 10U;
static_assert(at_once_floats <= slot_floats);
// Sums are formed in the first-level cache.
constexpr std::size_t sum_floats = 512;
constexpr std::size_t line_floats = 16;
// Floats read, and then written, per peer in each turn of an exchange.
constexpr std::size_t exchange_floats = std::size_t{2} << 10U;

enum purpose_kind : std::uint64_t {
  reduced_at_once = 1,
  part_given,
  part_summed,
  gathered,
  agreed,
  scattered,
  parts_gathered
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share no lock");
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex is 32 bits");

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Not FUTEX_PRIVATE: shared between processes.
void sleep_while(const std::atomic<std::uint32_t>& value, std::uint32_t old,
                 std::chrono::nanoseconds most) noexcept {
  const timespec time{0, static_cast<long>(std::min(most, sleep_time_max).count())};
  ::syscall(SYS_futex, &value, FUTEX_WAIT, old, &time, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& value) noexcept {
  ::syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Rendezvous counters wrap at 2^32.
bool has_come(std::uint32_t arrived, std::uint32_t meeting) noexcept {
  return static_cast<std::int32_t>(arrived - meeting) >= 0;
}

void copy(const float* from, std::size_t count, float* to) {
  if (count > 0)
    std::memcpy(to, from, count * sizeof(float));
}

void add(const float* __restrict one, const float* __restrict other, std::size_t count,
         float* __restrict sum) {
  for (std::size_t i = 0; i < count; ++i)
    sum[i] = one[i] + other[i];
}

void add(float* __restrict sum, const float* __restrict more, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    sum[i] += more[i];
}

// At most `most` values of a rank's part after its first `done`.
std::pair<std::size_t, std::size_t> piece_of_part(std::span<const std::size_t> borders,
                                                  std::uint32_t rank, std::size_t done,
                                                  std::size_t most) {
  const std::size_t begin = std::min(borders[rank] + done, borders[rank + 1]);
  return {begin, std::min(most, borders[rank + 1] - begin)};
}

// Parts of equal work; whole cache lines except for the last. Parts of ranks that do not exist are
// empty.
std::array<std::size_t, ranks_max + 1> even_borders(std::size_t size, std::uint32_t width) {
  std::array<std::size_t, ranks_max + 1> borders{};
  for (std::uint32_t part = 1; part < borders.size(); ++part)
    borders[part] = part >= width ? size : size * part / width / line_floats * line_floats;
  return borders;
}

std::size_t longest_part(std::span<const std::size_t> borders) {
  std::size_t longest = 0;
  for (std::size_t rank = 0; rank + 1 < borders.size(); ++rank)
    longest = std::max(longest, borders[rank + 1] - borders[rank]);
  return longest;
}

} // namespace

shared_collective::shared_collective(std::uint32_t rank, std::uint32_t width,
                                     shared_options options)
    : ranked_collective(rank, width, slot_floats), options_(options), processes_(width, -1) {
  ENSURE(width <= ranks_max, "rank {} of {}", rank, width);
}

shared_collective::~shared_collective() {
  forget_processes();
}

void shared_collective::forget_processes() noexcept {
  for (int& fd : processes_)
    if (fd >= 0)
      ::close(std::exchange(fd, -1));
}

result<void> shared_collective::enter(std::shared_ptr<const group_area> area) {
  if (area->width() != width_)
    return fail(errc::invalid_value, "a rank of a group of {} enters one of {}", width_,
                area->width());
  std::int32_t occupant = 0;
  if (!area->flags_of(rank_).process.compare_exchange_strong(occupant, ::getpid()))
    return fail(errc::conflict, "rank {} of epoch {} is process {}", rank_, area->epoch().value,
                occupant);
  forget_processes();
  area_ = std::move(area);
  meeting_ = round_ = 0;
  failure_.reset();
  return {};
}

result<void> shared_collective::check_epoch() const {
  if (!area_->is_open())
    return fail(errc::stale_epoch, "epoch {} of a group is over", area_->epoch().value);
  return {};
}

// -- Meetings --

// Returns when all ranks have arrived. Their earlier writes are then visible.
result<void> shared_collective::rendezvous(const purpose& what) {
  ++meeting_;
  rank_flags& own = area_->flags_of(rank_);
  own.purposes[meeting_ % 2] = what;
  settle();
  // Sequentially consistent, as in sleep_until_there: either we see the sleeper or it sees us.
  own.arrived.store(meeting_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) > 0)
    wake_all(own.arrived);
  for (std::uint32_t peer = 0; peer < width_; ++peer) {
    if (peer == rank_)
      continue;
    if (auto ok = await(peer, meeting_); !ok)
      return ok;
    const purpose& other = area_->flags_of(peer).purposes[meeting_ % 2];
    if (other != what)
      return fail(errc::internal,
                  "ranks of a group do not agree: {} comes for {} of kind {}, {} for {} of kind {}",
                  rank_, what.floats, what.kind, peer, other.floats, other.kind);
  }
  return {};
}

result<void> shared_collective::await(std::uint32_t peer, std::uint32_t meeting) {
  const auto& arrived = area_->flags_of(peer).arrived;
  for (int i = 0; i < 8 * pauses_per_look; ++i) {
    if (has_come(arrived.load(std::memory_order_acquire), meeting))
      return {};
    pause();
  }
  const auto begin = clock::now();
  do {
    for (int i = 0; i < pauses_per_look; ++i) {
      if (has_come(arrived.load(std::memory_order_acquire), meeting))
        return {};
      pause();
    }
  } while (clock::now() < begin + spin_time);
  rank_flags& other = area_->flags_of(peer);
  other.sleepers.fetch_add(1, std::memory_order_seq_cst);
  auto outcome = sleep_until_there(peer, meeting, begin + options_.deadline);
  other.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return outcome;
}

result<void> shared_collective::sleep_until_there(std::uint32_t peer, std::uint32_t meeting,
                                                  clock::time_point until) {
  const auto& arrived = area_->flags_of(peer).arrived;
  for (;;) {
    const bool was_gone = is_gone(peer); // checked first: it may have arrived before it ended
    const std::uint32_t seen = arrived.load(std::memory_order_seq_cst);
    if (has_come(seen, meeting))
      return {};
    if (auto ok = check_epoch(); !ok)
      return ok;
    if (was_gone)
      return fail(errc::link_down, "the process of rank {} of {} is gone", peer, width_);
    const auto left = until - clock::now();
    if (left <= left.zero())
      return fail(errc::deadline_exceeded, "rank {} of {} did not come within {} ms", peer, width_,
                  options_.deadline.count());
    sleep_while(arrived, seen, left);
  }
}

// Whether the process has ended, reaped or not. Reuse of its pid by another process goes unnoticed:
// then the deadline applies.
bool shared_collective::is_gone(std::uint32_t peer) {
  const pid_t process = area_->flags_of(peer).process.load(std::memory_order_relaxed);
  if (process == 0 || process == ::getpid())
    return false;
  if (processes_[peer] < 0) {
    processes_[peer] = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    if (processes_[peer] < 0)
      return errno == ESRCH;
  }
  pollfd look{processes_[peer], POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

result<void> shared_collective::look() {
  if (failure_)
    return *failure_;
  for (std::uint32_t peer = 0; peer < width_; ++peer)
    if (is_gone(peer))
      return kept(fail(errc::link_down, "the process of rank {} of {} is gone", peer, width_));
  return kept(check_epoch());
}

result<void> shared_collective::agree(std::uint64_t what) {
  if (failure_)
    return *failure_;
  if (width_ == 1)
    return {};
  if (auto ok = rendezvous({agreed, what}); !ok)
    return kept(ok);
  return kept(check_epoch());
}

// -- Values --

float* shared_collective::next_slot() noexcept {
  return own_slot(++round_);
}

result<void> shared_collective::all_reduce(std::span<float> values) {
  if (failure_)
    return *failure_;
  if (width_ == 1)
    return {};
  if (!values.empty())
    if (auto ok =
            values.size() <= at_once_floats ? reduce_at_once(values) : reduce_in_parts(values);
        !ok)
      return kept(ok);
  // Values read after the end of an epoch may already be gone from its area.
  return kept(check_epoch());
}

result<void> shared_collective::reduce_at_once(std::span<float> values) {
  hand_over(values.data(), values.size_bytes(), next_slot());
  if (auto ok = rendezvous({reduced_at_once, values.size()}); !ok)
    return ok;
  accumulate(values.data(), values.size(), 0, nullptr);
  return {};
}

// Every rank hands the others their parts of its values, sums its own part, and takes the other
// sums. Each round handles one slot of values.
result<void> shared_collective::reduce_in_parts(std::span<float> values) {
  std::span<float> summed, next = values.first(std::min(values.size(), slot_floats));
  for (;;) {
    exchange_parts(summed, next);
    if (next.empty())
      return {};
    ++round_;
    values = values.subspan(next.size());
    summed = std::exchange(next, values.first(std::min(values.size(), slot_floats)));
    if (auto ok = rendezvous({part_given, summed.size()}); !ok)
      return ok;
    // The other ranks read only this part.
    const auto [begin, count] =
        piece_of_part(even_borders(summed.size(), width_), rank_, 0, slot_floats);
    accumulate(summed.data() + begin, count, begin, own_slot(round_) + begin);
    if (auto ok = rendezvous({part_summed, summed.size()}); !ok)
      return ok;
  }
}

// Takes the others' parts of this round's sums, and hands them their parts of the next values.
// Alternates in small turns: non-temporal stores overlap with waiting for the other core's lines,
// but the processor does not look far ahead.
void shared_collective::exchange_parts(std::span<float> summed, std::span<const float> next) {
  const auto takes = even_borders(summed.size(), width_), gives = even_borders(next.size(), width_);
  float* own = own_slot(round_ + 1);
  for (std::size_t at = 0; at < std::max(longest_part(takes), longest_part(gives));
       at += exchange_floats)
    for (std::uint32_t peer = 0; peer < width_; ++peer) {
      if (peer == rank_)
        continue;
      const auto [first, taken] = piece_of_part(takes, peer, at, exchange_floats);
      copy(slot_of(peer) + first, taken, summed.data() + first);
      const auto [begin, given] = piece_of_part(gives, peer, at, exchange_floats);
      hand_over(next.data() + begin, given * sizeof(float), own + begin);
    }
}

// values = the sum over ranks, in rank order, from offset `slot_at` of the others' slots; the
// result also goes to `also`. Writes overlap with loads from the other core; alone, each write
// would wait for its line.
void shared_collective::accumulate(float* values, std::size_t count, std::size_t slot_at,
                                   float* also) const {
  const auto of = [&](std::uint32_t peer) {
    return peer == rank_ ? values : slot_of(peer) + slot_at;
  };
  float sum[sum_floats];
  for (std::size_t at = 0; at < count; at += sum_floats) {
    const std::size_t now = std::min(sum_floats, count - at);
    add(of(0) + at, of(1) + at, now, sum);
    for (std::uint32_t peer = 2; peer < width_; ++peer)
      add(sum, of(peer) + at, now);
    copy(sum, now, values + at);
    if (also != nullptr)
      hand_over(sum, now * sizeof(float), also + at);
  }
}

// -- Values in parts --

// Calls piece(done) for each `most` of the longest part: ranks with shorter parts call as often.
template <class Piece>
result<void> shared_collective::in_pieces(std::size_t size, std::span<const std::size_t> borders,
                                          std::size_t most, Piece piece) {
  ENSURE(borders.size() == width_ + 1U && borders.front() == 0 && borders.back() == size &&
             std::is_sorted(borders.begin(), borders.end()),
         "parts of {} for {} ranks", size, width_);
  if (failure_)
    return *failure_;
  const std::size_t longest = width_ == 1 ? 0 : longest_part(borders);
  for (std::size_t done = 0; done < longest; done += most)
    if (auto ok = piece(done); !ok)
      return kept(ok);
  return kept(check_epoch());
}

// A slot has a share for each rank, at the rank's index; its own share stays empty.
result<void> shared_collective::reduce_scatter(std::span<float> values,
                                               std::span<const std::size_t> borders) {
  return in_pieces(values.size(), borders, share_floats(),
                   [&](std::size_t done) { return scatter_piece(values, borders, done); });
}

std::size_t shared_collective::share_floats() const noexcept {
  return slot_floats / width_ / line_floats * line_floats;
}

result<void> shared_collective::scatter_piece(std::span<float> values,
                                              std::span<const std::size_t> borders,
                                              std::size_t done) {
  const std::size_t share = share_floats();
  float* slot = next_slot();
  for (std::uint32_t peer = 0; peer < width_; ++peer)
    if (const auto [begin, count] = piece_of_part(borders, peer, done, share); peer != rank_)
      hand_over(values.data() + begin, count * sizeof(float), slot + peer * share);
  if (auto ok = rendezvous({scattered, values.size()}); !ok)
    return ok;
  const auto [begin, count] = piece_of_part(borders, rank_, done, share);
  accumulate(values.data() + begin, count, rank_ * share, nullptr);
  return {};
}

result<void> shared_collective::all_gather(std::span<std::byte> all,
                                           std::span<const std::size_t> borders) {
  return in_pieces(all.size(), borders, slot_floats * sizeof(float),
                   [&](std::size_t done) { return gather_parts(all, borders, done); });
}

result<void> shared_collective::gather_parts(std::span<std::byte> all,
                                             std::span<const std::size_t> borders,
                                             std::size_t done) {
  const auto piece = [&](std::uint32_t rank) {
    return piece_of_part(borders, rank, done, slot_floats * sizeof(float));
  };
  const auto [own, size_bytes] = piece(rank_);
  hand_over(all.data() + own, size_bytes, next_slot());
  if (auto ok = rendezvous({parts_gathered, all.size()}); !ok)
    return ok;
  for (std::uint32_t peer = 0; peer < width_; ++peer)
    if (const auto [begin, count] = piece(peer); peer != rank_ && count > 0)
      std::memcpy(all.data() + begin, slot_of(peer), count);
  return {};
}

result<void> shared_collective::gather_piece(std::span<const float> own, std::span<float> all,
                                             std::span<const std::size_t> counts,
                                             std::size_t done) {
  const auto piece = [&](std::uint32_t peer) {
    return std::min(counts[peer] - std::min(done, counts[peer]), slot_floats);
  };
  float* slot = next_slot();
  if (rank_ != 0)
    hand_over(own.data() + std::min(done, own.size()), piece(rank_) * sizeof(float), slot);
  if (auto ok =
          rendezvous({gathered, std::accumulate(counts.begin(), counts.end(), std::uint64_t{0})});
      !ok)
    return ok;
  std::size_t first = counts[0];
  for (std::uint32_t peer = 1; peer < width_ && rank_ == 0; first += counts[peer++])
    copy(slot_of(peer), piece(peer), all.data() + first + done);
  return {};
}

} // namespace baton::collective
