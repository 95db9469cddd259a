#include "cluster/repository_scan.hpp"

#include "cluster/config_workers.hpp"
#include "cluster/pbtxt.hpp"
#include "cluster/pbtxt_fields.hpp"
#include "schema/limits.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace baton::cluster {
namespace {

scanned_version refused(std::string why, std::uint64_t digest = 0) {
  scanned_version out;
  out.digest = digest;
  out.refusal = std::move(why);
  return out;
}

// Directory and name agree in Triton too.
std::string wrong_name(const std::string& config, const std::string& directory) {
  const auto parsed = parse_pbtxt(config);
  if (!parsed)
    return {}; // the translation says so
  pbtxt_fields fields(*parsed, directory);
  const auto name = fields.text("name");
  return name.empty() || name == directory
             ? std::string()
             : fmt::format("config.pbtxt names it '{}', its directory is '{}'", name, directory);
}

// Of a config.pbtxt that was read, in the words of [[workers]].
std::string words_of(const gateway::version_policy& policy) {
  if (policy.is_all)
    return "all";
  return policy.specific.empty() ? fmt::format("latest {}", policy.latest)
                                 : fmt::format("specific {}", fmt::join(policy.specific, " "));
}

result<gateway::version_policy> policy_of(const std::string& config, const std::string& model) {
  const auto parsed = parse_pbtxt(config);
  if (!parsed)
    return fail(errc::bad_config, "config.pbtxt: {}", parsed.error().message);
  pbtxt_fields fields(*parsed, model);
  auto policy = fields.message("version_policy");
  auto latest = policy.message("latest");
  auto specific = policy.message("specific");
  constexpr std::int64_t versions_max = 1 << 20;
  const auto newest = latest.integer("num_versions", 1, versions_max);
  const auto named = specific.integers("versions", 0, UINT32_MAX);
  for (const auto* part : {&fields, &policy, &latest, &specific})
    if (part->wrong())
      return *part->wrong();
  gateway::version_policy out;
  out.latest = static_cast<std::uint32_t>(std::max<std::int64_t>(newest, 1));
  out.is_all = policy.find("all") != nullptr;
  if (!out.is_all && policy.find("specific")) {
    for (const auto version : named)
      out.specific.push_back(static_cast<std::uint32_t>(version));
    if (out.specific.empty())
      return fail(errc::bad_config, "version_policy.specific names no version");
  }
  return out;
}

scanned_version version_of(const repository_directory& from, std::uint32_t version) {
  auto alone = from.model;
  alone.versions = {version};
  auto made = import_triton_worker(alone);
  auto out = refused(made ? std::string() : made.error().message, from.digests.at(version));
  out.version = std::to_string(version);
  if (!made)
    return out;
  out.notes = std::move(made->notes);
  out.table = std::move(made->toml);
  if (const auto policy = policy_of(from.model.config, from.name);
      policy && *policy != gateway::version_policy())
    out.table += fmt::format("version_policy = \"{}\"\n", words_of(*policy));
  auto worker = parse_worker(out.table, from.name);
  if (!worker)
    out.refusal = worker.error().message;
  else if (out.table.size() > limits::model_config_bytes_max)
    out.refusal = fmt::format("its configuration has {} bytes, at most {} are told",
                              out.table.size(), limits::model_config_bytes_max);
  else
    out.worker = *std::move(worker);
  return out;
}

std::vector<scanned_version> model_of(const repository_directory& from,
                                      const std::set<std::string>& taken) {
  if (!from.unreadable.empty())
    return {refused(from.unreadable)};
  // Whatever changes may mend it.
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

result<std::vector<std::uint32_t>> chosen_versions(const std::string& config,
                                                   const std::vector<std::uint32_t>& there,
                                                   const std::string& model) {
  const auto policy = policy_of(config, model);
  if (!policy)
    return policy.error();
  if (there.empty())
    return fail(errc::bad_config, "it has no version: a directory that is a number");
  if (policy->is_all)
    return there;
  const auto& named = policy->specific;
  if (named.empty()) {
    const auto count = std::min<std::size_t>(there.size(), policy->latest);
    return std::vector<std::uint32_t>(there.end() - static_cast<std::ptrdiff_t>(count),
                                      there.end());
  }
  std::vector<std::uint32_t> out;
  for (const auto version : there)
    if (std::find(named.begin(), named.end(), version) != named.end())
      out.push_back(version);
  if (out.empty())
    return fail(errc::bad_config, "version_policy names {}, there are {}", fmt::join(named, ", "),
                fmt::join(there, ", "));
  return out;
}

scanned_models scan_repository(const std::vector<repository_directory>& directories,
                               const std::set<std::string>& taken) {
  scanned_models all;
  for (const auto& d : directories)
    all.emplace(d.name, model_of(d, taken));
  return all;
}

} // namespace baton::cluster
