// What every collective of ours has, however its ranks meet: a failure stays until the group begins
// anew, and values are gathered piece by piece.
#pragma once

#include "runtime/collective/collective.hpp"

#include <optional>

namespace baton::collective {

class ranked_collective : public collective {
public:
  // No epoch has begun, or a call has failed since.
  bool is_broken() const noexcept { return failure_.has_value(); }

  std::uint32_t rank() const noexcept final { return rank_; }
  std::uint32_t width() const noexcept final { return width_; }
  result<void> gather(std::span<const float> own, std::span<float> all,
                      std::span<const std::size_t> counts) final;
  void give_up(const error& why) final { static_cast<void>(kept(why)); }

protected:
  // Requires: rank < width. `piece_floats`: of a rank's values, so many are gathered at a time.
  ranked_collective(std::uint32_t rank, std::uint32_t width, std::size_t piece_floats);

  // A failure stays: ranks no longer know of one another how far they are.
  result<void> kept(result<void> outcome);

  const std::uint32_t rank_, width_;
  std::optional<error> failure_;

private:
  // All come, also those that have nothing left to give behind `done`.
  virtual result<void> gather_piece(std::span<const float> own, std::span<float> all,
                                    std::span<const std::size_t> counts, std::size_t done) = 0;
  // Whether what was read belongs to this epoch still.
  virtual result<void> check_epoch() const { return {}; }

  const std::size_t piece_floats_;
};

} // namespace baton::collective
