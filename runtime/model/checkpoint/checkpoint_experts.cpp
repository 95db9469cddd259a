// The experts of a mixture. A directory has a tensor per expert; GGUF has one per layer with the
// experts' rows in order. That joint tensor has no bytes of its own: its rows are read from the
// experts' tensors.
#include "runtime/model/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <utility>

namespace baton::model {

result<void> checkpoint::add_expert(std::uint64_t number, tensor_view view, source from) {
  auto& all = experts_[view.name];
  if (const auto other = all.find(number); other != all.end()) {
    return duplicate(from, other->second.from);
  }
  all.emplace(number, expert_matrix{std::move(view), std::move(from)});
  return {};
}

const checkpoint::source* checkpoint::find_expert(const expert_name& name) const {
  const auto all = experts_.find(gguf_tensor_name(name.pattern, config_.names));
  if (all == experts_.end()) {
    return nullptr;
  }
  const auto one = all->second.find(name.expert);
  return one != all->second.end() ? &one->second.from : nullptr;
}

result<void> checkpoint::join_experts() {
  const auto count = get_u32(config_.architecture + ".expert_count", 0);
  if (!count) {
    return count.error();
  }
  for (auto& [name, experts] : experts_) {
    source from{.published = published_tensor_name(name, config_.names)};
    for (auto& [number, each] : experts) {
      if (number != from.experts.size()) { // an earlier expert is missing
        break;
      }
      from.experts.push_back(std::move(each));
    }
    if (from.experts.size() < std::max<std::size_t>(*count, experts.size())) {
      return fail(errc::bad_model_file, "{}: tensor '{}' is missing", path_.string(),
                  published_name_of({from.published, from.experts.size()}));
    }
    if (auto r = add_experts(name, std::move(from)); !r) {
      return r;
    }
  }
  experts_.clear();
  return {};
}

result<void> checkpoint::add_experts(const std::string& name, source from) {
  const auto& first = from.experts.front();
  for (const auto& [view, own] : from.experts) {
    if (view.type != first.view.type || view.shape != first.view.shape) {
      return fail(errc::bad_model_file, "{}: tensor '{}' is {}, but '{}' is {}", path_.string(),
                  own.published, shape_of(view), first.from.published, shape_of(first.view));
    }
  }
  auto all = first.view;
  all.name = name;
  all.bytes = {};
  all.shape.push_back(from.experts.size());
  return add(std::move(all), std::move(from));
}

result<void> checkpoint::add_joint(const tensor_view& joint, const source& from,
                                   const joint_names& names) {
  const auto& shape = joint.shape;
  // A row of biases has the gates and ups of an expert.
  const std::size_t halved = names.is_of_biases ? 0 : 1;
  if (shape.size() < 2 || shape.size() > 3 || shape[halved] % 2 != 0 ||
      (names.is_of_biases && from.quantised != nullptr)) {
    return fail(errc::bad_model_file, "{}: tensor '{}' is {}, not of gates and ups",
                from.file ? files_[*from.file].path().string() : path_.string(), from.published,
                shape_of(joint));
  }
  const std::uint64_t half = shape[halved] / 2;
  const std::uint64_t element_bytes = tensor_type_traits(joint.type).block_bytes;
  for (const auto& [name, first] : {std::pair(names.gate, std::uint64_t{0}), {names.up, half}}) {
    auto view = joint;
    view.name = name;
    view.shape[halved] = half;
    view.bytes = {};
    auto of_half = from;
    of_half.part = rows_part{.stored = joint, .own = half, .first = first};
    if (names.is_interleaved) {
      of_half.part->first = first == 0 ? 0 : 1;
      of_half.part->units = names.is_of_biases ? half : 1;
      of_half.part->unit_bytes = names.is_of_biases ? element_bytes : joint.row_bytes();
    }
    if (auto r = add(std::move(view), std::move(of_half)); !r) {
      return r;
    }
  }
  return {};
}

result<void> checkpoint::read_part_rows(const source& from, std::uint64_t first,
                                        std::span<std::byte> out) const {
  const auto& [stored, own, begin, units, unit_bytes] = *from.part;
  if (units != 0) {
    return read_alternate_units(from, first, out);
  }
  const auto row_bytes = stored.row_bytes();
  while (!out.empty()) {
    const auto count = std::min(out.size() / row_bytes, own - first % own);
    const auto at = first / own * 2 * own + begin + first % own;
    if (auto r = read_whole_rows(from, at, out.first(count * row_bytes)); !r) {
      return r;
    }
    out = out.subspan(count * row_bytes);
    first += count;
  }
  return {};
}

result<void> checkpoint::read_whole_rows(const source& from, std::uint64_t first,
                                         std::span<std::byte> out) const {
  const auto& stored = from.part->stored;
  const auto row_bytes = stored.row_bytes();
  return from.quantised ? from.quantised->copy_rows(files_, first, out.size() / row_bytes, out)
                        : files_[*from.file].read(stored, first * row_bytes, out);
}

// Whole rows of the stored tensor are read: a row of biases, or two rows of a matrix.
result<void> checkpoint::read_alternate_units(const source& from, std::uint64_t first,
                                              std::span<std::byte> out) const {
  const auto& [stored, own, parity, units, unit_bytes] = *from.part;
  constexpr std::size_t bytes_together = std::size_t{1} << 20U;
  const auto row_bytes = units * unit_bytes, stored_bytes = stored.row_bytes();
  const auto together = std::max<std::size_t>(bytes_together / (2 * row_bytes), 1);
  std::vector<std::byte> both;
  while (!out.empty()) {
    const auto count = std::min(out.size() / row_bytes, together);
    both.resize(2 * count * row_bytes);
    if (auto r = read_whole_rows(from, first * 2 * row_bytes / stored_bytes, both); !r) {
      return r;
    }
    for (std::size_t unit = 0; unit < count * units; ++unit) {
      std::ranges::copy(std::span(both).subspan((2 * unit + parity) * unit_bytes, unit_bytes),
                        out.begin() + static_cast<std::ptrdiff_t>(unit * unit_bytes));
    }
    out = out.subspan(count * row_bytes);
    first += count;
  }
  return {};
}

result<void> checkpoint::read_expert_rows(const source& from, std::uint64_t first,
                                          std::span<std::byte> out) const {
  const auto& one = from.experts.front().view; // all have its shape
  const auto rows = one.rows(), row_bytes = one.row_bytes();
  while (!out.empty()) {
    const auto& [view, own] = from.experts[first / rows];
    const auto begin = first % rows, count = std::min(out.size() / row_bytes, rows - begin);
    if (auto r = read_rows(view, own, begin, count, out.first(count * row_bytes)); !r) {
      return r;
    }
    out = out.subspan(count * row_bytes);
    first += count;
  }
  return {};
}

} // namespace baton::model
