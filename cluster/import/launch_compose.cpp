// Compose files: https://github.com/compose-spec/compose-spec/blob/main/05-services.md. A service
// is converted to the words of `docker run`, so that one parser reads both.
#include "cluster/import/launch_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <cctype>

namespace baton::cluster {
namespace {

constexpr std::size_t compose_services_max = 256;

bool is_name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

} // namespace

std::string start_line::interpolated(std::string_view text, const variable_lookup& variable) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      ++i;
      continue;
    }
    const bool is_braced = text[i + 1] == '{';
    const auto first = i + (is_braced ? 2 : 1);
    auto end = first;
    while (end < text.size() && is_name_letter(text[end]))
      ++end;
    const auto close = is_braced ? text.find('}', end) : end;
    if (end == first || close == text.npos) {
      out += text[i];
      continue;
    }
    const auto value = variable(std::string(text.substr(first, end - first)));
    auto otherwise = text.substr(end, close - end); // ":-default"
    const bool counts_empty = otherwise.starts_with(':');
    otherwise.remove_prefix(counts_empty ? 1 : 0);
    const bool is_set = value && !(counts_empty && value->empty());
    if (is_set)
      out += *value;
    else if (otherwise.starts_with('-'))
      out += interpolated(otherwise.substr(1), variable); // shorter than `text`
    i = is_braced ? close : close - 1;
  }
  return out;
}

namespace {

class compose_service {
public:
  compose_service(const YAML::Node& of, const std::string& directory,
                  const variable_lookup& variable)
      : of_(of), directory_(directory), variable_(variable) {}

  result<launch_line> line();

private:
  std::string text(const YAML::Node& node) const {
    return node && node.IsScalar() ? start_line::interpolated(node.Scalar(), variable_)
                                   : std::string();
  }
  // A list, or a text that is split as a shell would.
  result<std::vector<std::string>> args(const YAML::Node& node) const;
  std::string resolve(const std::string& path) const;
  void add_volumes();
  void add_ports();
  void add_variables();
  void add_gpus();
  std::vector<launch_env_file> env_files() const;
  void add(std::string option, std::string value) {
    args_.push_back(std::move(option));
    args_.push_back(std::move(value));
  }

  YAML::Node of_;
  const std::string& directory_;
  const variable_lookup& variable_;
  std::vector<std::string> args_{"run"};
};

result<std::vector<std::string>> compose_service::args(const YAML::Node& node) const {
  std::vector<std::string> all;
  if (!node || node.IsNull())
    return all;
  if (node.IsSequence()) {
    for (const auto& one : node)
      all.push_back(text(one));
    return all;
  }
  auto commands = split_shell(text(node));
  if (!commands)
    return commands.error();
  // No shell runs it: a command separator of a shell is an ordinary word here.
  return commands->front();
}

// Resolves a path: relative ones start at the file's directory; `~` is the user's home.
std::string compose_service::resolve(const std::string& path) const {
  if (path.starts_with("~")) {
    const auto home = variable_("HOME");
    return (home ? *home : std::string("~")) + path.substr(1);
  }
  if (!path.starts_with("."))
    return path;
  const auto rest = path.starts_with("./") ? path.substr(2) : path == "." ? "" : path;
  return directory_.empty() ? path : rest.empty() ? directory_ : directory_ + "/" + rest;
}

void compose_service::add_volumes() {
  for (const auto& volume : of_["volumes"]) {
    if (volume.IsMap()) {
      const auto source = text(volume["source"]), target = text(volume["target"]);
      if (!source.empty() && !target.empty())
        add("--volume", resolve(source) + ":" + target);
    } else if (const auto m = start_line::mount_of(text(volume))) {
      add("--volume", resolve(m->outside) + ":" + m->inside);
    }
  }
}

void compose_service::add_ports() {
  for (const auto& port : of_["ports"]) {
    if (!port.IsMap()) {
      add("--publish", text(port));
      continue;
    }
    const auto host = text(port["host_ip"]);
    add("--publish", fmt::format("{}{}{}:{}", host, host.empty() ? "" : ":",
                                 text(port["published"]), text(port["target"])));
  }
}

void compose_service::add_variables() {
  const auto all = of_["environment"];
  for (const auto& one : all) {
    if (all.IsMap()) {
      if (one.second.IsNull()) {
        if (const auto value = variable_(one.first.Scalar()))
          add("--env", one.first.Scalar() + "=" + *value);
      } else {
        add("--env", one.first.Scalar() + "=" + text(one.second));
      }
    } else if (const auto entry = text(one); entry.find('=') != entry.npos) {
      add("--env", entry);
    } else if (const auto value = variable_(entry)) {
      add("--env", entry + "=" + *value);
    }
  }
}

// One path or several, each a plain text or {path, required, format}.
std::vector<launch_env_file> compose_service::env_files() const {
  std::vector<launch_env_file> all;
  const auto add = [&](const YAML::Node& one) {
    launch_env_file file;
    file.kind = env_file_kind::compose;
    if (one.IsMap()) {
      file.path = text(one["path"]);
      file.is_required = text(one["required"]) != "false";
      if (text(one["format"]) == "raw")
        file.kind = env_file_kind::plain;
    } else {
      file.path = text(one);
    }
    const bool is_beside = !file.path.starts_with('/') && !file.path.starts_with('~');
    file.path = resolve(is_beside && !file.path.starts_with('.') ? "./" + file.path : file.path);
    all.push_back(std::move(file));
  };
  if (const auto entry = of_["env_file"]; entry && entry.IsSequence())
    for (const auto& one : entry)
      add(one);
  else if (entry)
    add(entry);
  return all;
}

void compose_service::add_gpus() {
  if (of_["gpus"]) {
    add("--gpus", of_["gpus"].IsScalar() ? text(of_["gpus"]) : "all");
    return;
  }
  auto deploy = of_["deploy"];
  auto resources = deploy.IsMap() ? deploy["resources"] : YAML::Node();
  auto reserved = resources.IsMap() ? resources["reservations"] : YAML::Node();
  auto devices = reserved.IsMap() ? reserved["devices"] : YAML::Node();
  for (const auto& device : devices) {
    if (!device.IsMap())
      continue;
    if (const auto ids = device["device_ids"]; ids && ids.IsSequence()) {
      std::vector<std::string> named;
      for (const auto& id : ids)
        named.push_back(text(id));
      add("--gpus", fmt::format("device={}", fmt::join(named, ",")));
    } else {
      const auto count = device["count"] ? text(device["count"]) : "all";
      add("--gpus", count == "-1" ? "all" : count);
    }
  }
  if (!devices.IsSequence() && text(of_["runtime"]) == "nvidia")
    add("--gpus", "all");
}

result<launch_line> compose_service::line() {
  add_volumes();
  add_ports();
  add_variables();
  add_gpus();
  if (text(of_["network_mode"]) == "host")
    add("--network", "host");
  auto entry_point = args(of_["entrypoint"]);
  auto command = args(of_["command"]);
  if (!entry_point || !command)
    return entry_point ? command.error() : entry_point.error();
  if (!entry_point->empty()) {
    add("--entrypoint", entry_point->front());
    command->insert(command->begin(), entry_point->begin() + 1, entry_point->end());
  }
  args_.push_back("--");
  args_.push_back(of_["image"] ? text(of_["image"]) : "built");
  args_.insert(args_.end(), command->begin(), command->end());
  auto made = start_line::read_container(args_);
  if (made)
    made->env_files = env_files();
  return made;
}

result<launch_line> read_services(const YAML::Node& root, const std::string& service,
                                  const std::string& directory, const variable_lookup& variable) {
  const auto services = root["services"];
  if (!services || !services.IsMap() || services.size() > compose_services_max)
    return fail(errc::bad_config, "it has no services, or more than {}", compose_services_max);
  std::vector<std::pair<std::string, launch_line>> servers;
  std::vector<std::string> refused;
  for (const auto& entry : services) {
    const auto name = entry.first.Scalar();
    if (!entry.second.IsMap() || (!service.empty() && name != service))
      continue;
    auto line = compose_service(entry.second, directory, variable).line();
    if (line)
      servers.emplace_back(name, *std::move(line));
    else
      refused.push_back(fmt::format("{}: {}", name, line.error().message));
  }
  if (servers.empty() && refused.empty())
    return fail(errc::bad_config, "it has no service '{}'", service);
  if (servers.empty())
    return fail(errc::bad_config, "none of its services is a known server: {}",
                fmt::join(refused, "; "));
  if (servers.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [name, line] : servers)
      names.push_back(name);
    return fail(errc::bad_config, "it has several servers: name one of {} after the file",
                fmt::join(names, ", "));
  }
  return std::move(servers.front().second);
}

} // namespace

result<launch_line> read_compose(std::string_view yaml, const std::string& service,
                                 const std::string& directory, const variable_lookup& variable) {
  try { // the boundary to yaml-cpp, which throws
    const auto root = YAML::Load(std::string(yaml));
    if (!root.IsMap())
      return fail(errc::bad_config, "it is no map of settings, as a compose file is");
    return read_services(root, service, directory, variable);
  } catch (const YAML::Exception& e) {
    return fail(errc::bad_config, "line {}: {}", e.mark.line + 1, e.msg);
  }
}

bool is_compose(std::string_view yaml) {
  try { // the boundary to yaml-cpp, which throws
    const auto root = YAML::Load(std::string(yaml));
    return root.IsMap() && root["services"] && root["services"].IsMap();
  } catch (const YAML::Exception&) {
    return false;
  }
}

} // namespace baton::cluster
