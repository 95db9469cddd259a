#include "cluster/models/repository_scan.hpp"

#include "cluster/config/readers/config_workers.hpp"
#include "cluster/formats/pbtxt.hpp"
#include "cluster/formats/pbtxt_fields.hpp"
#include "cluster/models/triton/triton_batching.hpp"
#include "cluster/models/triton/triton_versions.hpp"
#include "schema/limits.hpp"

namespace baton::cluster {
namespace {

scanned_version refused(std::string why, std::uint64_t digest = 0) {
  scanned_version out;
  out.digest = digest;
  out.refusal = std::move(why);
  return out;
}

// Triton too requires that the name equals the directory's.
std::string wrong_name(const std::string& config, const std::string& directory) {
  const auto parsed = parse_pbtxt(config);
  if (!parsed)
    return {}; // the translation reports the error
  pbtxt_fields fields(*parsed, directory);
  const auto name = fields.text("name");
  if (name.empty() || name == directory)
    return {};
  return is_name(name)
             ? fmt::format("config.pbtxt names it '{}', its directory is '{}'", name, directory)
             : fmt::format("config.pbtxt names it otherwise than '{}', its directory", directory);
}

scanned_version version_of(const repository_directory& from, std::uint32_t version) {
  const auto& alone = from.chosen.at(version);
  const auto made = alone ? import_triton_worker(*alone) : alone.error();
  auto out = refused(made ? std::string() : made.error().message, from.digests.at(version));
  out.version = std::to_string(version);
  if (!made)
    return out;
  for (const auto& note : made->notes)
    if (!note.ends_with(queue_default_note))
      out.notes.push_back(note);
  out.table = made->toml;
  if (const auto policy = read_version_policy(from.model.config, from.name);
      policy && *policy != gateway::version_policy())
    out.table += fmt::format("version_policy = \"{}\"\n", policy_text(*policy));
  auto worker = parse_worker(out.table, from.name);
  if (!worker)
    out.refusal = worker.error().message;
  else if (out.table.size() > limits::model_config_bytes_max)
    out.refusal = fmt::format("its configuration has {} bytes, at most {} are allowed",
                              out.table.size(), limits::model_config_bytes_max);
  else
    out.worker = *std::move(worker);
  return out;
}

std::vector<scanned_version> model_of(const repository_directory& from,
                                      const std::set<std::string>& taken) {
  if (!from.unreadable.empty())
    return {refused(from.unreadable)};
  // Any change of a file may fix the error, so the digest covers all of them.
  std::uint64_t all = 0;
  for (const auto& [version, digest] : from.digests)
    all ^= digest;
  if (taken.contains(from.name))
    return {refused("nodes.toml has another model of this name", all)};
  if (auto why = wrong_name(from.model.config, from.name); !why.empty())
    return {refused(std::move(why), all)};
  const auto chosen = chosen_versions(from.model.config, from.model.versions, from.name);
  if (!chosen)
    return {refused(chosen.error().message, all)};
  std::vector<scanned_version> out;
  for (const auto version : *chosen)
    out.push_back(version_of(from, version));
  return out;
}

} // namespace

scanned_models scan_repository(const std::vector<repository_directory>& directories,
                               const std::set<std::string>& taken) {
  scanned_models all;
  for (const auto& d : directories)
    all.emplace(d.name, model_of(d, taken));
  return all;
}

} // namespace baton::cluster
