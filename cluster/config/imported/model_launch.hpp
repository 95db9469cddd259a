// A nodes.toml for one model on this machine, or for a directory of them: what `cluster run MODEL`
// and `cluster up MODEL` serve.
#pragma once

#include "cluster/config/models_dir.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace baton::cluster {

struct model_launch {
  std::filesystem::path model; // a GGUF file, a directory of safetensors, or one of models
  std::string name{};          // as clients ask for it; empty: the file's
  std::string device = "cpu";
  std::string http = "127.0.0.1:8000";
  std::string zmq = "tcp://127.0.0.1:8002";
  std::uint32_t max_model_len = 0;  // 0: the default
  std::uint64_t kv_cache_bytes = 0; // 0: the default
};

// Whether the path is a model and not a nodes.toml: a file that begins as GGUF does, or a
// directory.
bool is_model(const std::filesystem::path& path);

// Whether it is a directory that holds models, and none itself.
bool is_directory_of_models(const std::filesystem::path& path);

// The text of the nodes.toml. Errors: not_found (no such file; says what a model's reference may
// be), bad_config (a directory without a model).
result<std::string> config_of(const model_launch& of);

// Stores the text where processes of this user find it. The path is the same for a model of the
// same name, so that `cluster down PATH` and a second start refer to the same cluster. Errors:
// io_failed.
result<std::filesystem::path> store_launch(const std::string& text,
                                           const std::string& cluster_name);

// The cluster's name for a model of this name: the same, or shortened, because the paths of sockets
// in the run directory are limited.
std::string cluster_name_of(const std::string& model);

} // namespace baton::cluster
