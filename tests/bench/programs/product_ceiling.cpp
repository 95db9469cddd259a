#include "tests/bench/programs/product_ceiling.hpp"

#include "runtime/cpu/panels/weight_block.hpp"
#include "tests/bench/programs/product_rate.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace baton {
namespace {

// How a block of a matrix is multiplied: the instruction, and the number of scalings after it.
using way = std::pair<product, std::uint32_t>;
using work = std::map<std::optional<way>, double>; // products; nothing: unknown instruction
using rates = std::map<std::optional<way>, std::vector<double>>; // by round

// Nothing where tiles multiply, because no measurement here has their rate.
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
  const std::uint32_t scalings = (layout.has_two_scales ? 2 : 1) * (layout.has_min ? 3 : 2);
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

product_ceiling ceiling_of(const work& all, const rates& measured, std::size_t rounds) {
  product_ceiling made;
  for (const auto& [what, products] : all)
    made.products += products / 1e6;
  for (std::size_t round = 0; round < rounds; ++round) {
    double seconds = 0;
    for (const auto& [what, products] : all)
      seconds += products / 1e9 / measured.at(what)[round];
    made.rows_a_second.push_back(1 / seconds);
  }
  return made;
}

} // namespace

product_ceilings measure_product_ceilings(const model::model_file& file,
                                          const model::description& model, cpu::isa which,
                                          std::uint32_t bits, std::uint32_t threads, int rounds) {
  const auto add = [&](work& all, const std::vector<model::tensor_requirement>& tensors) {
    for (const auto& tensor : tensors) {
      const double products = products_of(tensor, model);
      if (products == 0)
        continue;
      const auto found = file.find(tensor.name);
      all[found ? way_of(found->type, which, bits) : std::nullopt] += products;
    }
  };
  work prompt;
  for (std::uint32_t layer = 0; layer < model.layer_count; ++layer)
    add(prompt, layer_tensors(model, layer));
  work decoded = prompt;
  add(decoded, output_tensors(model));
  rates measured;
  std::size_t known_rounds = decoded.contains(std::nullopt) ? 0 : static_cast<std::size_t>(rounds);
  for (const auto& [what, products] : decoded) {
    if (known_rounds == 0)
      break;
    measured[what] = measure_product_rate(threads, what->first, what->second, rounds);
    known_rounds = std::min(known_rounds, measured[what].size());
  }
  return {ceiling_of(prompt, measured, known_rounds), ceiling_of(decoded, measured, known_rounds)};
}

} // namespace baton
