// Reads the devices and cores of workers from nodes.toml.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/formats/toml_section.hpp"

namespace baton::cluster {

// Reads device_type and device_ids of a [[workers]] table. Requires: its parallel_type and
// parallel_level are read. Errors: bad_config.
result<void> read_worker_devices(const std::string& device_type, const toml::node* device_ids,
                                 const std::string& path, const std::string& origin,
                                 worker_config& w);

// number_of_gpu, cpu_launcher_enable and cpu_launcher_args of [cluster]. Errors: bad_config.
struct worker_keys {
  const toml::node* number_of_gpu = nullptr;
  bool cpu_launcher_enable = false;
  std::string cpu_launcher_args;

  void read(toml_section& s);
  result<void> apply(const std::string& origin, cluster_config& config) const;
};

} // namespace baton::cluster
