#include "runtime/model/slice.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace baton::model {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Bytes that a decode step reads, summed over layers: [0] = 0, [l] = layers below l. A state is
// read and written.
std::vector<double> cost_below(const description& model, const decode_load& load) {
  const auto kv_bytes = [&](std::size_t layer) {
    return 2.0 * model.kv_size(static_cast<std::uint32_t>(layer)) * load.kv_element_bytes *
           load.rows * load.positions;
  };
  const double state_bytes =
      model.recurrence ? 2.0 * static_cast<double>(model.recurrence->state_bytes()) * load.rows
                       : 0.0;
  std::vector<double> below = {0.0};
  for (std::size_t i = 0; i < model.layer_bytes.size(); ++i) {
    const bool is_recurrent =
        i < model.layers.size() && model.layers[i].mixer != mixer_kind::attention;
    below.push_back(below.back() + static_cast<double>(model.layer_bytes[i]) +
                    (is_recurrent ? state_bytes : kv_bytes(i)));
  }
  return below;
}

// One cut: ends[s] is the layer after stage s.
struct cut {
  double slowest = infinite;
  std::vector<std::uint32_t> ends;
};

// Best cut by dynamic programming over (stage, layer after it). First minimises the slowest stage
// (infinite limit). Then, with that as the limit, the sum of squares, which evens out the others.
class cutter {
public:
  cutter(std::vector<double> below, double head, std::vector<double> speeds)
      : below_(std::move(below)), head_(head), speeds_(std::move(speeds)) {}

  cut best() const { return solve(solve(infinite).slowest); }

private:
  std::size_t layers() const { return below_.size() - 1; }

  double time(std::size_t stage, std::size_t first, std::size_t end) const {
    const double head = stage + 1 == speeds_.size() ? head_ : 0.0;
    return (below_[end] - below_[first] + head) / speeds_[stage];
  }

  cut solve(double limit) const {
    const bool evens_out = limit != infinite;
    const double scale = evens_out && limit > 0.0 ? limit : 1.0; // keeps squares near 1
    const std::size_t width = layers() + 1;
    std::vector<double> score(width, infinite);
    std::vector<std::vector<std::uint32_t>> firsts;
    score[0] = 0.0;
    for (std::size_t stage = 0; stage < speeds_.size(); ++stage) {
      std::vector<double> next(width, infinite);
      std::vector<std::uint32_t> first_of(width, 0);
      for (std::size_t end = stage + 1; end < width; ++end) {
        for (std::size_t first = stage; first < end; ++first) {
          const double t = time(stage, first, end);
          const double share = t / scale;
          const double total = evens_out ? score[first] + share * share : std::max(score[first], t);
          if (t <= limit && total < next[end]) {
            next[end] = total;
            first_of[end] = static_cast<std::uint32_t>(first);
          }
        }
      }
      score = std::move(next);
      firsts.push_back(std::move(first_of));
    }
    cut found{.slowest = score.back(), .ends = std::vector<std::uint32_t>(speeds_.size())};
    auto end = static_cast<std::uint32_t>(layers());
    for (std::size_t stage = speeds_.size(); stage-- > 0;) {
      found.ends[stage] = end;
      end = firsts[stage][end];
    }
    return found;
  }

  std::vector<double> below_;
  double head_;
  std::vector<double> speeds_;
};

} // namespace

result<std::vector<layer_range>> partition(const description& model, std::uint32_t stage_count,
                                           std::span<const double> speeds,
                                           const decode_load& load) {
  if (stage_count == 0) {
    return fail(errc::invalid_value, "a model needs at least one stage");
  }
  if (stage_count > model.layer_count) {
    return fail(errc::does_not_fit, "{} stages for {} layers: every stage needs one", stage_count,
                model.layer_count);
  }
  if (const auto feature = model.uncut_feature(); stage_count > 1 && !feature.empty()) {
    return fail(errc::does_not_fit, "'{}' has {}: its layers cannot be cut into {} stages",
                model.name, feature, stage_count);
  }
  if (!speeds.empty() && speeds.size() != stage_count) {
    return fail(errc::invalid_value, "{} speeds for {} stages", speeds.size(), stage_count);
  }
  for (const double speed : speeds) {
    if (!(speed >= stage_speed_min && speed <= stage_speed_max)) { // also refuses NaN
      return fail(errc::invalid_value, "a stage's speed is {}, not in [{}, {}]", speed,
                  stage_speed_min, stage_speed_max);
    }
  }
  ENSURE(model.layer_bytes.size() == model.layer_count, "{} layers, bytes of {}", model.layer_count,
         model.layer_bytes.size());
  std::vector<double> all_speeds(stage_count, 1.0);
  std::ranges::copy(speeds, all_speeds.begin());
  const auto head = static_cast<double>(model.head_bytes + model.output_norm_bytes);
  const cut best = cutter(cost_below(model, load), head, std::move(all_speeds)).best();
  std::vector<layer_range> ranges;
  std::uint32_t first = 0;
  for (const std::uint32_t end : best.ends) {
    ranges.push_back({.first = first,
                      .count = end - first,
                      .has_embedding = first == 0,
                      .has_head = end == model.layer_count});
    first = end;
  }
  return ranges;
}

double step_cost(const description& model, const layer_range& range, std::uint32_t rows,
                 const decode_load& load) {
  auto own = load;
  own.rows = rows;
  const auto below = cost_below(model, own);
  const auto head = static_cast<double>(model.head_bytes + model.output_norm_bytes);
  return below.at(range.end()) - below.at(range.first) + (range.has_head ? head : 0.0);
}

layer_range whole(const description& model) noexcept {
  return {.first = 0, .count = model.layer_count, .has_embedding = true, .has_head = true};
}

std::vector<std::string> tensors_of(const description& model, const layer_range& range) {
  std::vector<tensor_requirement> list;
  const auto add = [&](std::vector<tensor_requirement> group) {
    std::ranges::move(group, std::back_inserter(list));
  };
  if (range.has_embedding) {
    add(input_tensors(model));
  }
  if (range.count > 0) {
    add(shared_tensors(model));
  }
  for (std::uint32_t layer = range.first; layer < range.end(); ++layer) {
    add(layer_tensors(model, layer));
  }
  if (range.has_head) {
    add(output_tensors(model));
    if (range.has_embedding && model.has_tied_embeddings) {
      list.pop_back(); // the head is the embedding, which is already in the list
    }
  }
  std::vector<std::string> names;
  std::ranges::transform(list, std::back_inserter(names),
                         [](const tensor_requirement& tensor) { return tensor.name; });
  return names;
}

result<std::uint64_t> stage_bytes(const description& model, const model_file& file,
                                  const layer_range& range) {
  std::uint64_t total = 0;
  for (const auto& name : tensors_of(model, range)) {
    const auto tensor = file.find(name);
    if (!tensor) {
      return fail(errc::bad_model_file, "{}: tensor '{}' is missing", file.path().string(), name);
    }
    total += tensor->size_bytes();
  }
  return total;
}

} // namespace baton::model
