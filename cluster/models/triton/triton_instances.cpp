#include "cluster/models/triton/triton_instances.hpp"

#include "cluster/config/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace baton::cluster {
namespace {

// Fields of a group that are ignored, and why.
constexpr std::pair<std::string_view, std::string_view> left_out_instance_fields[] = {
    {"name", "a worker has the name of its process"},
    {"profile", "profiles are those of TensorRT's engines"},
    {"rate_limiter",
     "a worker computes whenever it has a batch: instance_group.count sets how many do so at once"},
    {"secondary_devices", "they are for accelerators that no backend here has"},
    {"host_policy", "policies are options of tritonserver; cluster.cpu_launcher_enable binds "
                    "workers to cores"},
};
constexpr std::array<std::string_view, 4> read_instance_fields{"kind", "count", "gpus", "passive"};

struct instance_group {
  std::string kind;
  std::int64_t count = 1;
  std::vector<std::int64_t> gpus;
};

class instances_reader {
public:
  instances_reader(pbtxt_fields& config, std::string path, std::uint32_t gpus)
      : config_(config), path_(std::move(path)), gpus_(gpus) {}

  triton_instances read() {
    std::vector<instance_group> groups;
    for (const auto* entry : config_.all("instance_group")) {
      if (!entry->is_object()) {
        config_.refuse("instance_group", "a message");
        return {};
      }
      if (auto one = read_group(*entry))
        groups.push_back(*std::move(one));
    }
    if (groups.empty())
      groups.push_back({"KIND_AUTO", 1, {}}); // Triton's default
    assign_devices(groups);
    return std::move(out_);
  }

private:
  // None: the group is passive, so its instances get no requests.
  std::optional<instance_group> read_group(const pbtxt_fields::json& entry) {
    pbtxt_fields from(entry, path_);
    instance_group one;
    one.kind = from.text("kind");
    one.kind = one.kind.empty() ? "KIND_AUTO" : one.kind;
    one.count = std::max<std::int64_t>(1, from.integer("count", 1, workers_of_cluster_max));
    one.gpus = from.integers("gpus", 0, device_ids_max);
    const bool is_passive = from.flag("passive");
    constexpr std::array<std::string_view, 4> kinds{"KIND_AUTO", "KIND_GPU", "KIND_CPU",
                                                    "KIND_MODEL"};
    if (std::find(kinds.begin(), kinds.end(), one.kind) == kinds.end())
      from.refuse("kind", "KIND_AUTO, KIND_GPU, KIND_CPU or KIND_MODEL");
    if (!one.gpus.empty() && (one.kind == "KIND_CPU" || one.kind == "KIND_MODEL"))
      from.fail_with(
          fail(errc::bad_config, "{} has kind {} but specifies one or more GPUs", path_, one.kind));
    if (from.wrong())
      config_.fail_with(*from.wrong());
    note_rest(entry);
    if (!is_passive)
      return one;
    note("passive = true: the group is left out: its workers would get no requests");
    return std::nullopt;
  }

  void note_rest(const pbtxt_fields::json& entry) {
    for (auto it = entry.begin(); it != entry.end(); ++it) {
      const std::string_view field = it.key();
      const auto* why =
          std::find_if(std::begin(left_out_instance_fields), std::end(left_out_instance_fields),
                       [&](const auto& f) { return f.first == field; });
      if (why != std::end(left_out_instance_fields))
        note(fmt::format("{} is left out: {}", field, why->second));
      else if (std::find(read_instance_fields.begin(), read_instance_fields.end(), field) ==
               read_instance_fields.end())
        note(fmt::format("{} IS NOT KNOWN: an instance_group has no such field",
                         field.substr(0, 64)));
    }
  }
  void note(std::string_view text) { out_.notes.push_back(fmt::format("instance_group.{}", text)); }

  // If a named GPU is missing, instances of KIND_AUTO run on the CPU.
  bool has_all(const instance_group& of) const {
    return gpus_ > 0 && std::all_of(of.gpus.begin(), of.gpus.end(), [&](std::int64_t id) {
             return id < static_cast<std::int64_t>(gpus_);
           });
  }

  // A single group without named GPUs becomes a type; otherwise each worker has a device.
  void assign_devices(std::vector<instance_group>& groups) {
    for (auto& g : groups)
      if (g.kind == "KIND_AUTO" && !g.gpus.empty())
        g.kind = has_all(g) ? "KIND_GPU" : "KIND_CPU";
    for (auto& g : groups)
      if (g.kind == "KIND_CPU")
        g.gpus.clear();
    if (groups.size() == 1 && groups.front().gpus.empty())
      return assign_type(groups.front());
    const auto is_cpu = [](const auto& g) { return g.kind == "KIND_CPU"; };
    if (std::all_of(groups.begin(), groups.end(), is_cpu)) {
      out_.count = 0;
      for (const auto& g : groups)
        out_.count += g.count;
      out_.toml = "device_type = \"cpu\"\n";
      return;
    }
    assign_each(groups);
  }

  void assign_type(const instance_group& g) {
    const auto each = std::max<std::int64_t>(1, gpus_);
    if (g.kind == "KIND_CPU" || g.kind == "KIND_MODEL") {
      out_.count = g.count;
      out_.toml = g.kind == "KIND_CPU" ? "device_type = \"cpu\"\n" : "device_type = \"own\"\n";
    } else {
      out_.count = g.count * each; // each GPU has this many instances
      out_.toml = g.kind == "KIND_GPU" ? "device_type = \"gpu\"\n" : "";
    }
    check_count();
  }

  void assign_each(const std::vector<instance_group>& groups) {
    std::vector<std::int64_t> ids;
    for (const auto& g : groups) {
      const bool is_on_gpus = g.kind == "KIND_GPU" || (g.kind == "KIND_AUTO" && gpus_ > 0);
      auto of_group = g.gpus;
      if (is_on_gpus && of_group.empty()) // all GPUs; with none, device 0 is reported as missing
        for (std::uint32_t i = 0; i < std::max(1u, gpus_); ++i)
          of_group.push_back(i);
      if (!is_on_gpus)
        of_group = {cpu_device_id};
      if (ids.size() + of_group.size() * static_cast<std::size_t>(g.count) > device_ids_max)
        return config_.refuse("instance_group",
                              fmt::format("at most {} instances", device_ids_max));
      for (const auto id : of_group)
        ids.insert(ids.end(), static_cast<std::size_t>(g.count), id);
    }
    out_.count = static_cast<std::int64_t>(ids.size());
    out_.toml = fmt::format("device_ids = [{}]\n", fmt::join(ids, ", "));
    check_count();
  }

  void check_count() {
    if (out_.count > workers_of_cluster_max)
      config_.refuse("instance_group", fmt::format("at most {} instances", workers_of_cluster_max));
  }

  pbtxt_fields& config_;
  std::string path_;
  std::uint32_t gpus_;
  triton_instances out_;
};

} // namespace

triton_instances import_triton_instances(pbtxt_fields& config, const std::string& name,
                                         std::uint32_t gpus) {
  return instances_reader(config, name + ".instance_group", gpus).read();
}

} // namespace baton::cluster
