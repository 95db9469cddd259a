#include "cluster/config/imported/model_launch.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/imported/imported_config.hpp"
#include "cluster/files/run_dir.hpp"
#include "cluster/hub/model_reference.hpp"
#include "schema/digest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

namespace baton::cluster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view gguf_magic = "GGUF";
constexpr std::size_t cluster_name_bytes_max = 24; // below /run/user/UID/baton
constexpr std::size_t digest_digits = 8;
constexpr std::string_view launch_file = "launch.toml";

bool is_gguf(const fs::path& file) {
  std::array<char, gguf_magic.size()> first{};
  std::ifstream in(file, std::ios::binary);
  return in.read(first.data(), first.size()) &&
         std::string_view(first.data(), first.size()) == gguf_magic;
}

} // namespace

bool is_model(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed) || is_gguf(path);
}

bool is_directory_of_models(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed) || fs::exists(path / "config.json", failed))
    return false;
  const auto found = look_into(path);
  return found && !found->files.empty();
}

result<std::string> config_of(const model_launch& of) {
  std::error_code failed;
  if (!fs::exists(of.model, failed)) {
    const auto text = of.model.string();
    if (is_reference(text))
      return fail(errc::not_found,
                  "{}: no such file or directory; if it is a reference, it is not downloaded: "
                  "`cluster pull {}` does that",
                  text, text);
    return fail(errc::not_found, "{}: no such file or directory", text);
  }
  if (!is_model(of.model))
    return fail(errc::bad_config,
                "{}: it is no GGUF file; a model is one, or a directory of safetensors",
                of.model.string());
  const bool is_several = is_directory_of_models(of.model);
  if (!is_several && fs::is_directory(of.model, failed) &&
      !fs::exists(of.model / "config.json", failed))
    return fail(errc::bad_config,
                "{}: the directory holds no model and has no config.json: a model is a GGUF file, "
                "or a directory of safetensors with a config.json",
                of.model.string());
  const auto name = of.name.empty() ? name_of_model(of.model) : of.name;
  const auto path = toml_string(fs::absolute(of.model).string());
  auto text = fmt::format("[cluster]\nname = {}\n\n[model]\n", toml_string(cluster_name_of(name)));
  text += is_several ? fmt::format("models_dir = {}\n", path)
                     : fmt::format("name = {}\npath = {}\n", toml_string(name), path);
  if (of.max_model_len > 0)
    text += fmt::format("max_model_len = {}\n", of.max_model_len);
  if (of.kv_cache_bytes > 0)
    text += fmt::format("kv_cache_bytes = {}\n", of.kv_cache_bytes);
  text +=
      fmt::format("\n[gateway]\nhttp = {}\nzmq = {}\n", toml_string(of.http), toml_string(of.zmq));
  text += fmt::format("\n[[nodes]]\nname = \"local\"\ndevices = [{}]\n", toml_string(of.device));
  return text;
}

std::string cluster_name_of(const std::string& model) {
  if (model.size() <= cluster_name_bytes_max)
    return model;
  const auto digest = fmt::format("{:016x}", digest_of(model));
  return fmt::format("{}-{}", model.substr(0, cluster_name_bytes_max - digest_digits - 1),
                     digest.substr(0, digest_digits));
}

result<fs::path> store_launch(const std::string& text, const std::string& cluster_name) {
  const auto dir = run_dir::open(default_run_dir(cluster_name));
  if (!dir)
    return dir.error();
  if (auto ok = dir->write(launch_file, text); !ok)
    return ok.error();
  return dir->path() / launch_file;
}

} // namespace baton::cluster
