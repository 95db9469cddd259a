// Translates instance_group of a config.pbtxt: the number of processes and their devices. Pure.
// Meanings and defaults are Triton's: model_config.proto, and NormalizeInstanceGroup of
// .../core/blob/main/src/model_config_utils.cc.
#pragma once

#include "cluster/formats/pbtxt_fields.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cluster {

struct triton_instances {
  std::int64_t count = 1;
  std::string toml; // device_type or device_ids; empty: workers use the machine's default
  std::vector<std::string> notes;
};
// `gpus`: the machine's GPUs; each gets `count` instances if a group names none. `config` collects
// the errors.
triton_instances import_triton_instances(pbtxt_fields& config, const std::string& name,
                                         std::uint32_t gpus);

} // namespace baton::cluster
