#include "runtime/engine/constraint_masks.hpp"

namespace baton::engine {

result<void> constraint_masks::find(const micro_batch& batch) {
  masks_.resize(batch.draws.size());
  std::size_t next = 0;
  for (const slice& s : batch.slices)
    for (std::uint32_t left = s.draws(); left > 0; --left, ++next) {
      const draw& d = batch.draws[next];
      masks_[next].clear();
      if (!d.sampling.constraint)
        continue;
      if (!from_)
        return fail(errc::unsupported_parameter, "this stage has no vocabulary to constrain");
      if (auto ok = from_->find(d.sampling.constraint, s.sequence, d.output, masks_[next]); !ok)
        return ok;
    }
  return {};
}

} // namespace baton::engine
