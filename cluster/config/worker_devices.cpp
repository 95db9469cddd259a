#include "cluster/config/worker_devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

namespace baton::cluster {
namespace {

bool uses_rotation(const worker_config& w) {
  return w.parallel == parallel_type::none && !w.device_ids &&
         (w.device_type == device_kind::automatic || w.device_type == device_kind::gpu);
}

// "cuda:3" gives 3.
std::optional<std::uint32_t> gpu_of_shard(const std::string& text) {
  constexpr std::string_view cuda = "cuda:";
  const auto where = parse_device(text);
  if (!where || !std::string_view(where->at).starts_with(cuda))
    return std::nullopt;
  std::uint32_t number = 0;
  const auto* end = where->at.data() + where->at.size();
  const auto read = std::from_chars(where->at.data() + cuda.size(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

std::string text_of_machine(const machine_gpus& machine) {
  return machine.names.empty()
             ? std::string("this machine has no GPU")
             : fmt::format("this machine has {}, numbered from 0", machine.names.size());
}

error no_gpu(const worker_position& who, std::string_view what, std::string_view why) {
  return fail_param(errc::start_failed, "device_ids", "{} is to have {}: {}", who.process, what,
                    why);
}

worker_gpus with(const worker_config& worker, std::vector<std::uint32_t> numbers,
                 const machine_gpus& machine) {
  worker_gpus out;
  out.numbers = std::move(numbers);
  if (worker.parallel == parallel_type::none) {
    out.gpu_id = out.numbers.front(); // all GPUs are visible, as in TorchServe and Triton
    return out;
  }
  std::vector<std::string> names;
  for (const auto number : out.numbers)
    names.push_back(machine.names[number]);
  out.visible = fmt::format("{}", fmt::join(names, ","));
  out.gpu_id = 0; // the first visible one
  return out;
}

result<worker_gpus> named_gpus(const worker_config& worker, const worker_position& who,
                               const machine_gpus& machine) {
  const auto& ids = *worker.device_ids;
  worker_gpus none;
  if (worker.parallel != parallel_type::none)
    none.visible = "";
  if (ids.empty())
    return none;
  const std::size_t width =
      worker.parallel == parallel_type::none ? 1 : std::max(1u, worker.parallel_level);
  const auto groups = std::max<std::size_t>(1, ids.size() / width);
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < width; ++i) {
    const auto id = ids[(who.number % groups * width + i) % ids.size()];
    if (id == cpu_device_id)
      return none;
    if (static_cast<std::size_t>(id) >= machine.names.size())
      return no_gpu(who, fmt::format("GPU {} (device_ids)", id), text_of_machine(machine));
    numbers.push_back(static_cast<std::uint32_t>(id));
  }
  return with(worker, std::move(numbers), machine);
}

result<worker_gpus> gpus_in_rotation(const worker_config& worker, const worker_position& who,
                                     const machine_gpus& machine) {
  const std::size_t width =
      worker.parallel == parallel_type::none ? 1 : std::max(1u, worker.parallel_level);
  const auto groups = machine.rotation.size() / width;
  if (groups == 0) {
    worker_gpus none;
    none.is_process_choice =
        width > 1 && !machine.names.empty(); // leaves the visible GPUs unchanged
    if (worker.device_type != device_kind::gpu)
      return none;
    const auto why = machine.rotation.size() < machine.names.size()
                         ? fmt::format("{}, of which {} are left: [[nodes]] and number_of_gpu have "
                                       "the others; device_ids names one all the same",
                                       text_of_machine(machine), machine.rotation.size())
                         : text_of_machine(machine);
    return no_gpu(who,
                  width == 1 ? std::string("a GPU (device_type)")
                             : fmt::format("{} GPUs (device_type)", width),
                  why);
  }
  const auto rotation_index =
      worker.parallel == parallel_type::none ? who.rotation_index : who.number;
  const auto first =
      machine.rotation.begin() + static_cast<std::ptrdiff_t>(rotation_index % groups * width);
  return with(worker, {first, first + static_cast<std::ptrdiff_t>(width)}, machine);
}

} // namespace

std::vector<std::string> devices_named(std::string_view variable) {
  std::vector<std::string> found;
  while (!variable.empty()) {
    const auto end = std::min(variable.find(','), variable.size());
    auto entry = variable.substr(0, end);
    variable.remove_prefix(std::min(end + 1, variable.size()));
    while (entry.starts_with(' '))
      entry.remove_prefix(1);
    while (entry.ends_with(' '))
      entry.remove_suffix(1);
    // CUDA ignores everything after the first invalid entry: "-1", "NoDevFiles", "".
    if (entry.empty() || entry.starts_with('-') || entry == "NoDevFiles")
      break;
    found.emplace_back(entry);
  }
  return found;
}

std::vector<std::string> devices_here() {
  if (const auto* value = std::getenv("CUDA_VISIBLE_DEVICES"))
    return devices_named(value);
  std::vector<std::string> found;
  std::error_code ignored;
  for (std::uint32_t i = 0; std::filesystem::exists(fmt::format("/dev/nvidia{}", i), ignored); ++i)
    found.push_back(std::to_string(i));
  return found;
}

machine_gpus gpus_for_workers(const cluster_config& config, std::vector<std::string> here) {
  machine_gpus out;
  out.names = std::move(here);
  std::vector<std::uint32_t> of_shards;
  for (const auto& node : config.nodes)
    for (const auto& text : node.devices)
      if (const auto number = gpu_of_shard(text); number && !node.is_elsewhere)
        of_shards.push_back(*number);
  const auto most =
      std::min<std::size_t>(out.names.size(), config.number_of_gpu.value_or(device_ids_max));
  for (std::uint32_t i = 0; i < most; ++i)
    if (std::find(of_shards.begin(), of_shards.end(), i) == of_shards.end())
      out.rotation.push_back(i);
  return out;
}

worker_position position_of(const cluster_config& config, std::uint32_t slot,
                            const std::string& process) {
  worker_position out;
  out.process = process;
  const auto number = process.substr(process.rfind('-') + 1); // "worker-echo-1"
  std::from_chars(number.data(), number.data() + number.size(), out.number);
  std::uint32_t first = 0; // slot of the model
  for (const auto& w : config.workers) {
    if (slot < first + w.count)
      break;
    out.rotation_index += uses_rotation(w) ? w.count : 0;
    first += w.count;
  }
  out.rotation_index += slot - first;
  return out;
}

std::string worker_gpus::text() const {
  if (is_process_choice)
    return "its own";
  return numbers.empty() ? std::string("CPU") : fmt::format("GPU {}", fmt::join(numbers, ", "));
}

result<worker_gpus> gpus_of(const worker_config& worker, const worker_position& who,
                            const machine_gpus& machine) {
  worker_gpus none;
  switch (worker.device_type) {
  case device_kind::cpu:
    if (worker.parallel != parallel_type::none)
      none.visible = "";
    return none;
  case device_kind::own:
    none.is_process_choice = true;
    return none;
  case device_kind::automatic:
  case device_kind::gpu:
    break;
  }
  return worker.device_ids ? named_gpus(worker, who, machine)
                           : gpus_in_rotation(worker, who, machine);
}

result<std::vector<worker_gpus>> gpus_of_workers(const cluster_config& config,
                                                 const machine_gpus& machine) {
  std::vector<worker_gpus> all;
  for (const auto& w : config.workers)
    for (std::uint32_t i = 0; i < w.count; ++i) {
      const auto slot = static_cast<std::uint32_t>(all.size());
      auto own =
          gpus_of(w, position_of(config, slot, fmt::format("worker-{}-{}", w.name, i)), machine);
      if (!own)
        return own.error();
      all.push_back(*std::move(own));
    }
  return all;
}

} // namespace baton::cluster
