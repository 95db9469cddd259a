#include "runtime/schedule/steps/activation_cache.hpp"

#include "schema/ensure.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace baton::schedule {

namespace {

bool leaves_same_state(const slice& sent, const slice& wanted) {
  return sent.state_from == wanted.state_from && sent.state_to == wanted.state_to &&
         (wanted.state_to == 0 || (sent.position == wanted.position && sent.rows == wanted.rows));
}

} // namespace

activation_cache::activation_cache(std::size_t batches_max, std::uint32_t block_positions)
    : batches_max_(batches_max), block_positions_(block_positions) {
  ENSURE(block_positions > 0, "KV blocks without positions");
}

void activation_cache::begin_epoch() {
  if (is_spoilt_) {
    before_.clear();
  } else if (!now_.empty()) {
    before_ = std::move(now_);
    forget_overwritten();
  }
  now_.clear();
  is_spoilt_ = false;
}

void activation_cache::spoil() {
  is_spoilt_ = true;
  before_.clear();
  now_.clear();
}

std::optional<std::span<const std::byte>>
activation_cache::find(const slice& wanted, std::span<const token_id> tokens) const {
  for (const batch& b : before_) {
    std::size_t first = 0; // row of the slice
    for (const slice& s : b.slices) {
      // wraps around if negative, and is then too large
      const std::size_t skipped = wanted.position - s.position;
      const bool is_it =
          s.sequence == wanted.sequence && leaves_same_state(s, wanted) &&
          skipped + wanted.rows <= s.rows - s.drafts && skipped <= s.rows &&
          wanted.blocks.size() <= s.blocks.size() &&
          std::equal(wanted.blocks.begin(), wanted.blocks.end(), s.blocks.begin()) &&
          std::equal(tokens.begin(), tokens.end(),
                     b.tokens.begin() + static_cast<std::ptrdiff_t>(first + skipped));
      if (is_it) {
        const std::size_t row_bytes = b.activations.size_bytes / b.tokens.size();
        return std::span(b.activations.data + (first + skipped) * row_bytes,
                         wanted.rows * row_bytes);
      }
      first += s.rows;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<std::span<const std::byte>>>
activation_cache::find(const micro_batch& wanted) {
  std::vector<std::span<const std::byte>> found;
  std::span<const token_id> tokens = wanted.tokens;
  for (const slice& s : wanted.slices) {
    const auto rows = s.rows <= tokens.size() ? find(s, tokens.first(s.rows)) : std::nullopt;
    if (!rows)
      break;
    found.push_back(*rows);
    tokens = tokens.subspan(s.rows);
  }
  if (found.size() == wanted.slices.size() && !found.empty() && wanted.copies.empty())
    return found;
  before_.clear();
  return std::nullopt;
}

std::span<const block_index> activation_cache::written_by(const slice& s) const {
  return std::span(s.blocks).subspan(
      std::min<std::size_t>(s.position / block_positions_, s.blocks.size()));
}

// Drops rows whose blocks or state slot have a newer owner. Done once per epoch, because steps have
// no time for it.
void activation_cache::forget_overwritten() {
  std::map<block_index, std::optional<sequence_id>> later; // the later writer; none: several
  std::set<std::uint32_t> later_states;
  for (auto b = before_.rbegin(); b != before_.rend(); ++b)
    for (slice& s : b->slices) {
      if (s.state_to != 0 && !later_states.insert(s.state_to).second)
        s.drafts = s.rows; // none of its rows is usable
      for (const block_index block : written_by(s))
        if (auto& writer = later.try_emplace(block, s.sequence).first->second;
            writer != s.sequence) {
          writer.reset();
          s.drafts = s.rows;
        }
    }
}

void activation_cache::remember(const micro_batch& sent) {
  if (is_spoilt_)
    return;
  if (!sent.copies.empty()) {
    before_.clear();
    now_.clear();
  }
  now_.push_back({sent.slices, sent.tokens, sent.activations});
  if (now_.size() > batches_max_)
    now_.pop_front();
}

} // namespace baton::schedule
