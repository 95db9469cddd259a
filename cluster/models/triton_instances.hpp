// instance_group of a config.pbtxt: how many processes serve the model, and where each computes.
// Pure. Meanings and defaults are Triton's: model_config.proto, and NormalizeInstanceGroup of
// .../core/blob/main/src/model_config_utils.cc.
#pragma once

#include "cluster/config/pbtxt_fields.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cluster {

struct triton_instances {
  std::int64_t count = 1;
  std::string toml; // device_type or device_ids; empty: workers take what the machine has
  std::vector<std::string> notes;
};
// `gpus`: of this machine, each of which has `count` instances where a group names none. What is
// wrong is kept by `config`.
triton_instances import_triton_instances(pbtxt_fields& config, const std::string& name,
                                         std::uint32_t gpus);

} // namespace baton::cluster
