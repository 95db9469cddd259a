#include "cluster/config/readers/config_devices.hpp"

#include "cluster/config/readers/config_error.hpp"

#include <algorithm>
#include <array>

namespace baton::cluster {
namespace {

constexpr std::array device_kinds{device_kind::automatic, device_kind::cpu, device_kind::gpu,
                                  device_kind::own};

result<std::vector<std::int32_t>> read_ids(const toml::node& node, const std::string& key,
                                           const std::string& origin, const worker_config& w) {
  const auto* array = node.as_array();
  if (!array)
    return bad_key(origin, key, "{} must be an array of numbers", key);
  const std::int32_t least = w.parallel == parallel_type::none ? cpu_device_id : 0;
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const auto id = array->get(i)->value_exact<std::int64_t>();
    if (!id || *id < least || *id > device_ids_max || ids.size() == device_ids_max)
      return bad_key(origin, key, "{} must be at most {} numbers from {} to {}", key,
                     device_ids_max, least, device_ids_max);
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

} // namespace

result<void> read_worker_devices(const std::string& device_type, const toml::node* device_ids,
                                 const std::string& path, const std::string& origin,
                                 worker_config& w) {
  const auto* kind = std::find_if(device_kinds.begin(), device_kinds.end(),
                                  [&](device_kind k) { return name_of(k) == device_type; });
  if (kind == device_kinds.end())
    return bad_key(origin, path + ".device_type",
                   "{}.device_type must be \"auto\", \"cpu\", \"gpu\" or \"own\", not \"{}\"", path,
                   device_type);
  w.device_type = *kind;
  if (!device_ids)
    return {};
  const auto key = path + ".device_ids";
  auto ids = read_ids(*device_ids, key, origin, w);
  if (!ids)
    return ids.error();
  if (w.parallel != parallel_type::none && ids->size() % w.parallel_level != 0)
    return bad_key(origin, key, "{} has {} devices: each worker takes {} of them", key, ids->size(),
                   w.parallel_level);
  if (w.device_type == device_kind::cpu || w.device_type == device_kind::own)
    return bad_key(origin, key, "{} and device_type = \"{}\" exclude one another", key,
                   device_type);
  w.device_ids = *std::move(ids);
  return {};
}

void worker_keys::read(toml_section& s) {
  number_of_gpu = s.take("number_of_gpu");
  s.read("cpu_launcher_enable", cpu_launcher_enable);
  s.read("cpu_launcher_args", cpu_launcher_args);
}

result<void> worker_keys::apply(const std::string& origin, cluster_config& config) const {
  if (number_of_gpu) {
    const auto most = number_of_gpu->value_exact<std::int64_t>();
    if (!most || *most < 0 || *most > device_ids_max)
      return bad_key(origin, "cluster.number_of_gpu",
                     "cluster.number_of_gpu must be a number from 0 to {}", device_ids_max);
    config.number_of_gpu = static_cast<std::uint32_t>(*most);
  }
  const auto args = parse_launcher_args(cpu_launcher_args);
  if (!args)
    return bad_key(origin, "cluster.cpu_launcher_args", "cluster.cpu_launcher_args: {}",
                   args.error().message);
  if (!args->notes.empty())
    return bad_key(origin, "cluster.cpu_launcher_args",
                   "cluster.cpu_launcher_args has an option without effect here: {}",
                   args->notes.front());
  if (!cpu_launcher_args.empty() && !cpu_launcher_enable)
    return bad_key(origin, "cluster.cpu_launcher_args",
                   "cluster.cpu_launcher_args needs cpu_launcher_enable = true");
  config.launcher = args->how;
  config.launcher.is_enabled = cpu_launcher_enable;
  return {};
}

} // namespace baton::cluster
