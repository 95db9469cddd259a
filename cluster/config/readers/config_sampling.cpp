#include "cluster/config/readers/config_sampling.hpp"

#include "cluster/config/readers/sampling_fields.hpp"

namespace baton::cluster {

result<void> read_sampling(toml_section& model, const std::string& path, const std::string& origin,
                           model_config& to) {
  model.read("generation_config", to.generation_config);
  const auto* node = model.take("sampling");
  if (to.generation_config != "auto" && to.generation_config != "none")
    return error{errc::bad_config,
                 fmt::format("{}: {}.generation_config '{}' must be auto or none", origin, path,
                             to.generation_config),
                 path + ".generation_config"};
  if (!node)
    return {};
  const auto own = path + ".sampling";
  const auto* table = node->as_table();
  if (!table)
    return error{errc::bad_config, fmt::format("{}: {} must be a table: [{}]", origin, own, own),
                 own};
  toml_section s(table, own, origin);
  for (const auto& field : sampling_reals) {
    float value = 1;
    s.read_number(field.name, value, field.range.least, field.range.most);
    if (!table->contains(field.name))
      continue;
    if (!field.range.contains(value)) // the bound itself, or a value that rounds to it
      return error{
          errc::bad_config,
          fmt::format("{}: {}.{} must be above {}", origin, own, field.name, field.range.least),
          fmt::format("{}.{}", own, field.name)};
    to.sampling.*field.to = value;
  }
  std::int32_t top_k = 0;
  std::uint32_t max_tokens = 1;
  s.read("top_k", top_k, 0, gateway::top_k_max);
  s.read("max_tokens", max_tokens, 1, sampling_tokens_most);
  if (table->contains("top_k"))
    to.sampling.top_k = top_k;
  if (table->contains("max_tokens"))
    to.sampling.max_tokens = max_tokens;
  return s.finish();
}

} // namespace baton::cluster
