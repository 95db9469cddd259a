#include "tests/bench/product_ceiling.hpp"

#include "runtime/cpu/weight_block.hpp"
#include "tests/bench/product_rate.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace baton {
namespace {

// What multiplies a block of a matrix: the instruction, and how many scalings follow it.
using way = std::pair<product, std::uint32_t>;
using work = std::map<way, double>; // products

// Nothing where tiles multiply, for no measurement here knows their rate.
std::optional<way> way_of(model::tensor_type type, cpu::isa which, std::uint32_t bits) {
  const auto format = cpu::panel_format_of(type);
  if (!format || (*format == cpu::panel_format::bf16 && which == cpu::isa::amx))
    return std::nullopt;
  const cpu::panel_layout layout = cpu::layout_of(*format);
  if (*format == cpu::panel_format::bf16 && which == cpu::isa::avx512_bf16)
    return way{product::pairs, 0};
  if (layout.is_float)
    return way{product::floats, 0};
  // sum += dot * (scale of the weights * scale of the activations), and the min times their sum
  const std::uint32_t scalings = 2 * (layout.has_two_scales ? 2 : 1) + (layout.has_min ? 1 : 0);
  return way{bits == 8 ? product::bytes : product::words, scalings};
}

double products_of(const model::tensor_requirement& tensor, const model::description& model) {
  if (tensor.shape.size() < 2)
    return 0;
  double size = 1;
  for (const auto extent : tensor.shape)
    size *= static_cast<double>(extent);
  return tensor.shape.size() == 2 ? size : size * model.expert_used_count / model.expert_count;
}

// False: of some tensor it is not known what multiplies it.
bool add(work& all, const std::vector<model::tensor_requirement>& tensors,
         const model::model_file& file, const model::description& model, cpu::isa which,
         std::uint32_t bits) {
  bool is_known = true;
  for (const auto& tensor : tensors) {
    const double products = products_of(tensor, model);
    const auto found = file.find(tensor.name);
    if (products == 0 || !found)
      continue;
    const auto what = way_of(found->type, which, bits);
    is_known = is_known && what;
    all[what.value_or(way{})] += products;
  }
  return is_known;
}

product_ceiling ceiling_of(const work& all, const std::map<way, std::vector<double>>& rates) {
  product_ceiling made;
  for (const auto& [what, products] : all)
    made.products += products / 1e6;
  std::size_t rounds = rates.empty() ? 0 : rates.begin()->second.size();
  for (const auto& [what, measured] : rates)
    rounds = std::min(rounds, measured.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    double seconds = 0;
    for (const auto& [what, products] : all)
      seconds += products / 1e9 / rates.at(what)[round];
    made.rows_a_second.push_back(1 / seconds);
  }
  return made;
}

} // namespace

product_ceilings measure_product_ceilings(const model::model_file& file,
                                          const model::description& model, cpu::isa which,
                                          std::uint32_t bits, std::uint32_t threads, int rounds) {
  work prompt;
  bool is_known = true;
  for (std::uint32_t layer = 0; layer < model.layer_count; ++layer)
    is_known = add(prompt, layer_tensors(model, layer), file, model, which, bits) && is_known;
  work decoded = prompt;
  is_known = add(decoded, output_tensors(model), file, model, which, bits) && is_known;
  std::map<way, std::vector<double>> rates;
  if (is_known)
    for (const auto& [what, products] : decoded)
      rates[what] = measure_product_rate(threads, what.first, what.second, rounds);
  return {ceiling_of(prompt, rates), ceiling_of(decoded, rates)};
}

} // namespace baton
