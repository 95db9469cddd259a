#include "cluster/roles/root/keep_alive_record.hpp"

#include "cluster/files/json_text.hpp"

#include <nlohmann/json.hpp>

namespace baton::cluster {
namespace {

constexpr std::string_view keep_alive_file = "keep_alive.json";

} // namespace

result<void> write_keep_alive(const run_dir& dir, const kept_models& kept) {
  auto all = nlohmann::ordered_json::object();
  for (const auto& [model, time] : kept)
    all[model] = time.count();
  return dir.write(keep_alive_file, json_text(all) + "\n");
}

kept_models read_keep_alive(const run_dir& dir) {
  kept_models kept;
  const auto text = dir.read(keep_alive_file);
  const auto all = nlohmann::json::parse(text.value_or("{}"), nullptr, /*allow_exceptions=*/false);
  if (!all.is_object())
    return kept;
  for (const auto& [model, time] : all.items())
    if (time.is_number_integer())
      kept.emplace(model, time.get<std::int64_t>());
  return kept;
}

} // namespace baton::cluster
