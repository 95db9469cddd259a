// Common part of all collectives: a failure persists until the group begins a new epoch, and values
// are gathered piece by piece.
#pragma once

#include "runtime/collective/collective.hpp"

#include <optional>

namespace baton::collective {

class ranked_collective : public collective {
public:
  // Whether no epoch has begun, or a call has failed since.
  bool is_broken() const noexcept { return failure_.has_value(); }

  std::uint32_t rank() const noexcept final { return rank_; }
  std::uint32_t width() const noexcept final { return width_; }
  result<void> gather(std::span<const float> own, std::span<float> all,
                      std::span<const std::size_t> counts) final;
  void give_up(const error& why) final { static_cast<void>(kept(why)); }

protected:
  // Requires: rank < width. `piece_floats`: the number of a rank's values gathered at a time.
  ranked_collective(std::uint32_t rank, std::uint32_t width, std::size_t piece_floats);

  // A failure persists, because the ranks no longer know each other's progress.
  result<void> kept(result<void> outcome);

  const std::uint32_t rank_, width_;
  std::optional<error> failure_;

private:
  // All ranks take part, also those with no values left beyond `done`.
  virtual result<void> gather_piece(std::span<const float> own, std::span<float> all,
                                    std::span<const std::size_t> counts, std::size_t done) = 0;
  // Whether the data that was read still belongs to this epoch.
  virtual result<void> check_epoch() const { return {}; }

  const std::size_t piece_floats_;
};

} // namespace baton::collective
