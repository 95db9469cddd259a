#include "cluster/import/launch_import.hpp"

#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_checks.hpp"
#include "cluster/import/launch_translation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace baton::cluster {

namespace start_line {
namespace {

constexpr std::size_t shown_bytes_max = 256;

const dialect* dialect_of(launcher program) {
  switch (program) {
  case launcher::vllm:
    return &vllm;
  case launcher::tgi:
    return &tgi;
  case launcher::llama:
    return &llama;
  case launcher::sglang:
    return &sglang;
  case launcher::torchserve_llm:
    return &torchserve_llm;
  case launcher::torchserve:
  case launcher::triton:
  case launcher::triton_openai:
    break;
  }
  return nullptr;
}

// Whether it has the form "Org/Model" of a name at Hugging Face, and not of a path.
bool is_hub_name(const std::string& model) {
  const auto slash = model.find('/');
  return slash != model.npos && slash > 0 && model.front() != '.' &&
         model.find('/', slash + 1) == model.npos && model.back() != '/' &&
         !model.ends_with(".gguf");
}

bool is_path(const std::string& path) {
  return path.starts_with('/') || path.starts_with('.') || path.starts_with('~');
}

} // namespace

std::vector<std::uint32_t> gpus_named(std::string_view text) {
  std::vector<std::uint32_t> all;
  constexpr std::string_view lead = "device=";
  if (!text.starts_with(lead))
    return all;
  text.remove_prefix(lead.size());
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    std::uint32_t id = 0;
    if (std::from_chars(text.data(), text.data() + end, id).ptr != text.data() + end)
      return {};
    all.push_back(id);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

// The last part of the path, with characters that are invalid in a name replaced by a dash.
std::string name_of_model(const std::string& model) {
  auto path = std::filesystem::path(model);
  if (!path.has_filename())
    path = path.parent_path();
  auto name = path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
  for (auto& c : name)
    if (!is_name(std::string_view(&c, 1)) && c != '.')
      c = '-';
  return name.substr(0, 64);
}

// Keeps the names that clients already use for the model.
void translation::set_aliases(const std::vector<std::string>& had) {
  std::vector<std::string> quoted;
  for (const auto& name : had) {
    auto text = toml_string(name);
    if (name == name_ || std::find(quoted.begin(), quoted.end(), text) != quoted.end())
      continue;
    if (is_alias(name))
      quoted.push_back(std::move(text));
    else
      note(fmt::format("the name '{}' is left out: a model.aliases is 1 to 128 of "
                       "[A-Za-z0-9._-/:@+]; CLIENTS HAVE TO ASK BY ANOTHER",
                       name));
  }
  if (!quoted.empty())
    set("model.aliases", fmt::format("[{}]", fmt::join(quoted, ", ")));
}

std::uint64_t translation::number_setting(const char* to, std::uint64_t otherwise) const {
  const auto it = settings_.find(to);
  std::uint64_t value = 0;
  return it != settings_.end() &&
                 std::from_chars(it->second.data(), it->second.data() + it->second.size(), value)
                         .ec == std::errc()
             ? value
             : otherwise;
}

// By default all servers except llama.cpp use the GPUs; llama.cpp needs --n-gpu-layers.
void translation::place_on_devices() {
  const bool is_given = !gpus_.empty() && gpus_ != "device=" && gpus_ != "0";
  const bool wants = is_given || (line_.program != launcher::llama && gpus_.empty());
  const auto needed = number_setting("model.tensor_parallel_size", 1) *
                      number_setting("model.pipeline_parallel_size", 1) *
                      number_setting("model.replicas", 1);
  auto ids = gpus_named(gpus_);
  if (ids.empty())
    for (std::uint32_t i = 0; i < wishes_.machine.gpus; ++i)
      ids.push_back(i);
  const bool has_enough =
      wants && wishes_.machine.gpus > 0 && ids.size() >= needed &&
      std::ranges::all_of(ids, [&](auto id) { return id < wishes_.machine.gpus; });
  if (has_enough) {
    for (std::uint64_t i = 0; i < needed; ++i)
      devices_.push_back(fmt::format("\"cuda:{}\"", ids[i]));
    if (const auto it = settings_.find("model.kv_cache_dtype");
        it != settings_.end() && it->second == "\"q8_0\"") {
      it->second = "\"f16\"";
      note("model.kv_cache_dtype is f16: GPUs keep no KV of 8 bits here");
    }
    return;
  }
  if (wishes_.machine.gpus > 0)
    settings_.erase("model.dtype"); // the native engine does not have this key
  if (is_given)
    note(fmt::format("GPUs ARE LEFT OUT: {} are needed, and this machine has {} with an engine for "
                     "them (docs/develop/engines.md); the CPU computes",
                     needed, wishes_.machine.gpus));
}

// Resolves conflicts between settings that are each valid alone.
void translation::mend() {
  const auto most = number_setting("model.prompt_lookup_max", model_config{}.prompt_lookup_max);
  const auto least = number_setting("model.prompt_lookup_min", model_config{}.prompt_lookup_min);
  if (least > most)
    set(settings_.contains("model.prompt_lookup_min") ? "model.prompt_lookup_max"
                                                      : "model.prompt_lookup_min",
        fmt::format("{}", settings_.contains("model.prompt_lookup_min") ? least : most));
  if (number_setting("gateway.processes", 1) > 1 && !settings_.contains("gateway.admin")) {
    const auto& port = port_.empty() ? std::string(from_.port) : port_;
    const auto number = std::stoul(port);
    set("gateway.admin",
        toml_string(fmt::format("127.0.0.1:{}", number < 65535 ? number + 1 : 65534)));
    note("gateway.admin: several gateways share one address, and /metrics is at this one");
  }
  for (const auto& [key, change] : wishes_.changes) {
    if (change.value.empty())
      settings_.erase(key);
    else
      set(key, change.value);
    note(fmt::format("{}{}: {}", key, change.value.empty() ? " is left out" : "", change.why));
  }
}

// Most servers listen on all addresses by default, with or without a key; nodes.toml must set that
// explicitly. Clients of a container use its published port.
void translation::write_address() {
  write_address(from_.listener, port_.empty() ? std::string(from_.port) : port_);
  for (const auto& [listener, port] : from_.others)
    write_address(listener, std::string(port));
}

void translation::write_address(std::string_view listener, const std::string& port) {
  auto host = host_.empty() ? std::string(from_.host) : host_;
  if (host.find(',') != host.npos)
    host = host.substr(0, host.find(','));
  auto at = line_.reached_at(host, port);
  host = at.host;
  if (!at.is_published) {
    note(fmt::format("{} is only for this machine: the command publishes no port {}", listener,
                     port));
  } else if (host.empty()) {
    note(fmt::format("{} is only for this machine: set the address that others may use, {} takes "
                     "all",
                     listener, from_.name));
  }
  if (host.empty() || host == "localhost")
    host = "127.0.0.1";
  const bool is_open = host != "127.0.0.1" && host != "::1";
  if (is_open && has_key_) {
    note(fmt::format("{} is only for this machine until gateway.api_keys lists the clients: then "
                     "it may be {} again",
                     listener, host));
    host = "127.0.0.1";
  } else if (is_open && !settings_.contains("gateway.allow_unauthenticated")) {
    set("gateway.allow_unauthenticated", "true");
    note("gateway.allow_unauthenticated: any client that reaches the address may send requests, as "
         "before");
  }
  at.host = host;
  set(listener, toml_string(at.text()));
}

void translation::write_model() {
  auto had = served_names_; // a server without a configured name uses the model as written
  if (had.empty() && !model_.empty())
    had.push_back(model_);
  const bool is_inside = line_.is_container && wishes_.model.empty() && model_.starts_with('/');
  auto path = wishes_.model.empty() ? line_.outside(model_) : wishes_.model;
  name_ = !wishes_.name.empty()   ? wishes_.name
          : served_names_.empty() ? ""
                                  : name_of_model(served_names_.front());
  if (is_inside && path == model_)
    note(fmt::format("model.path {}: nothing of this machine is mounted there; give the directory "
                     "(--model)",
                     path));
  else if (is_inside && !is_path(path))
    note(fmt::format("model.path {}: a volume is the container tool's own; give the directory "
                     "(--model)",
                     path));
  else if (is_hub_name(path))
    note(fmt::format("model.path {}: nothing is downloaded; if this is a name at Hugging Face, "
                     "give the directory that has it (--model)",
                     path));
  set("model.path", toml_string(path));
  if (name_.empty())
    name_ = name_of_model(path);
  set("model.name", toml_string(name_));
  if (wishes_.keeps_names)
    set_aliases(had);
}

// llama.cpp's router: it keeps models until others need the room, unless they sleep.
void translation::write_directory() {
  set("model.models_dir", toml_string(line_.outside(directory_)));
  if (!sleeps_)
    set("model.idle_timeout", "0");
  if (!served_names_.empty())
    note(fmt::format("the name '{}' is left out: models of a directory are named after their files",
                     served_names_.front()));
}

result<imported_config> translation::write() {
  const bool is_one = !model_.empty() || !wishes_.model.empty();
  if (!is_one && directory_.empty())
    return fail(errc::bad_config, "the command names no model");
  if (is_one && !directory_.empty())
    note(fmt::format("the directory {} is left out: the command names one model",
                     directory_.substr(0, shown_bytes_max)));
  if (is_one && sleeps_)
    set("model.load", toml_string("on-demand"));
  if (is_one)
    write_model();
  else
    write_directory();
  place_on_devices();
  write_address();
  mend();
  out_.toml = fmt::format("# Made of a command of {} by `cluster import`.\n", from_.name);
  for (const auto& line : out_.notes)
    out_.toml += toml_comment(line);
  constexpr std::pair<std::string_view, std::string_view> tables[] = {
      {"cluster", "cluster"},
      {"model", "model"},
      {"sampling", "model.sampling"},
      {"gateway", "gateway"}};
  for (const auto& [lead, table] : tables) {
    std::string keys;
    for (const auto& [to, value] : settings_)
      if (to.starts_with(fmt::format("{}.", lead)))
        keys += fmt::format("{} = {}\n", to.substr(lead.size() + 1), value);
    if (!keys.empty())
      out_.toml += fmt::format("\n[{}]\n{}", table, keys);
  }
  if (!devices_.empty())
    out_.toml +=
        fmt::format("\n[[nodes]]\nname = \"here\"\ndevices = [{}]\n", fmt::join(devices_, ", "));
  return std::move(out_);
}

} // namespace start_line

result<imported_config> import_launch(const launch_line& line, const import_wishes& wishes) {
  const auto* from = start_line::dialect_of(line.program);
  if (!from)
    return fail(errc::bad_config, "the line starts a server of files, not of one model");
  start_line::translation made(line, wishes, *from);
  if (auto wrong = made.read())
    return *wrong;
  return made.write();
}

result<imported_config> import_launch(const std::vector<std::string>& args,
                                      const std::string& model, const std::string& name,
                                      bool keeps_names) {
  auto line = read_launch_line(args);
  if (!line)
    return line.error();
  import_wishes wishes;
  wishes.model = model;
  wishes.name = name;
  wishes.keeps_names = keeps_names;
  return import_launch(*line, wishes);
}

} // namespace baton::cluster
