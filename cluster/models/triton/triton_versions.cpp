#include "cluster/models/triton/triton_versions.hpp"

#include "cluster/formats/pbtxt.hpp"
#include "cluster/formats/pbtxt_fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace baton::cluster {

result<gateway::version_policy> read_version_policy(const std::string& config,
                                                    const std::string& model) {
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
  if (policy.find("all"))
    return gateway::version_policy{0, true, {}};
  if (!policy.find("specific"))
    return gateway::version_policy{
        static_cast<std::uint32_t>(std::max<std::int64_t>(newest, 1)), false, {}};
  if (named.empty())
    return fail(errc::bad_config, "version_policy.specific names no version");
  return gateway::version_policy{0, false, {named.begin(), named.end()}};
}

std::string policy_text(const gateway::version_policy& policy) {
  if (policy.is_all)
    return "all";
  return policy.specific.empty() ? fmt::format("latest {}", policy.latest)
                                 : fmt::format("specific {}", fmt::join(policy.specific, " "));
}

result<std::vector<std::uint32_t>> chosen_versions(const std::string& config,
                                                   const std::vector<std::uint32_t>& there,
                                                   const std::string& model) {
  const auto policy = read_version_policy(config, model);
  if (!policy)
    return policy.error();
  if (there.empty())
    return fail(errc::bad_config, "it has no version: a directory that is a number from 1");
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

} // namespace baton::cluster
