// `docker run`, `podman run`: https://docs.docker.com/reference/cli/docker/container/run/ and
// https://docs.podman.io/en/latest/markdown/podman-run.1.html. An image's Dockerfile defines which
// program it starts.
#include "cluster/import/launch_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace baton::cluster::start_line {
namespace {

using container_args = std::span<const std::string>;

// Options without a value; all others have one.
constexpr std::string_view bare_long =
    " --rm --interactive --tty --detach --privileged --init --read-only --no-healthcheck "
    "--oom-kill-disable --publish-all --sig-proxy --disable-content-trust --quiet --replace --rmi "
    "--no-hosts --http-proxy --env-host --tls-verify --passwd --read-only-tmpfs --no-hostname "
    "--rootfs --unsetenv-all --use-api-socket ";
constexpr std::string_view bare_short = "itdPq";

// An option of the container: its long name if it has one, and its value.
struct container_option {
  std::string name, value;
};

constexpr std::pair<char, std::string_view> long_names[] = {
    {'v', "--volume"}, {'p', "--publish"}, {'e', "--env"}};

// Takes the options at the front; the rest begins with the image.
std::vector<container_option> take_options(container_args& args) {
  std::vector<container_option> all;
  const auto next = [&](std::string name) {
    std::string value;
    if (!args.empty()) {
      value = args[0];
      args = args.subspan(1);
    }
    all.push_back({std::move(name), std::move(value)});
  };
  while (!args.empty() && args[0].size() > 1 && args[0][0] == '-') {
    const auto arg = args[0];
    args = args.subspan(1);
    if (arg == "--")
      break;
    if (arg[1] == '-') {
      if (const auto equals = arg.find('='); equals != arg.npos)
        all.push_back({arg.substr(0, equals), arg.substr(equals + 1)});
      else if (bare_long.find(" " + arg + " ") != bare_long.npos)
        all.push_back({arg, ""});
      else
        next(arg);
      continue;
    }
    for (std::size_t i = 1; i < arg.size(); ++i) {
      if (bare_short.find(arg[i]) != bare_short.npos)
        continue;
      std::string name = fmt::format("-{}", arg[i]);
      for (const auto& [letter, name_of] : long_names)
        if (letter == arg[i])
          name = name_of;
      const auto rest = arg.substr(i + 1);
      if (rest.empty())
        next(std::move(name));
      else
        all.push_back({std::move(name), rest.starts_with('=') ? rest.substr(1) : rest});
      break;
    }
  }
  return all;
}

// Parses "type=bind,source=/a,target=/b".
std::optional<launch_mount> bound(std::string_view text) {
  launch_mount m;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const auto field = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const auto equals = field.find('=');
    if (equals == field.npos)
      continue;
    const auto key = field.substr(0, equals);
    if (key == "source" || key == "src")
      m.outside = field.substr(equals + 1);
    if (key == "target" || key == "destination" || key == "dst")
      m.inside = field.substr(equals + 1);
  }
  return m.outside.empty() || m.inside.empty() ? std::nullopt : std::optional(m);
}

// Options that concern only the container, and need no note.
constexpr std::string_view passed_over =
    " --rm --interactive --tty --detach --name --restart --ipc --shm-size --ulimit --init --pull "
    "--hostname --runtime --security-opt --cap-add --group-add --platform --label --user -u -w "
    "--workdir --log-driver --log-opt --quiet --replace --privileged --userns --pid --log-level "
    "--health-cmd --health-interval --health-retries --health-timeout --health-start-period "
    "--stop-timeout --annotation --tmpfs --add-host --dns --network-alias --cidfile ";

void take(const container_option& o, launch_line& line) {
  if (o.name == "--volume") {
    if (auto m = mount_of(o.value))
      line.mounts.push_back(*std::move(m));
  } else if (o.name == "--mount") {
    if (auto m = bound(o.value))
      line.mounts.push_back(*std::move(m));
  } else if (o.name == "--publish") {
    line.ports.push_back(port_of(o.value));
  } else if (o.name == "--env") {
    const auto equals = o.value.find('=');
    if (equals == o.value.npos)
      line.notes.push_back(fmt::format("-e {} is left out: its value is the shell's", o.value));
    else
      line.variables[o.value.substr(0, equals)] = o.value.substr(equals + 1);
  } else if (o.name == "--gpus") {
    line.gpus = o.value;
    std::erase(line.gpus, '"');
  } else if (o.name == "--device") {
    if (o.value.starts_with("nvidia.com/gpu="))
      line.gpus = o.value.ends_with("=all") ? "all" : "device=" + o.value.substr(15);
    else
      line.notes.push_back(
          fmt::format("--device {} is left out: [[nodes]] names devices", o.value));
  } else if (o.name == "--network" || o.name == "--net") {
    line.has_host_network = o.value == "host";
  } else if (o.name == "--cpus" || o.name == "--cpuset-cpus" || o.name == "--memory" ||
             o.name == "-m") {
    line.notes.push_back(fmt::format(
        "{} {} is left out: [[nodes]] names cores, and `cluster plan` shows what memory is taken",
        o.name, o.value));
  } else if (o.name == "--env-file") {
    line.env_files.push_back({o.value});
  } else if (passed_over.find(" " + o.name + " ") == passed_over.npos) {
    line.notes.push_back(fmt::format("{} is left out: it is the container's", o.name));
  }
}

// "ghcr.io/huggingface/text-generation-inference:3.0@sha256:..." -> last part of the name, and tag.
std::pair<std::string, std::string> parts_of(std::string image) {
  image = image.substr(0, image.find('@'));
  image = image.substr(image.rfind('/') + 1);
  const auto colon = image.find(':');
  return colon == image.npos ? std::pair(image, std::string())
                             : std::pair(image.substr(0, colon), image.substr(colon + 1));
}

// Defaults that the image's Dockerfile sets for the server.
void add_defaults_of(const std::string& image, launch_line& line) {
  const auto name = parts_of(image).first;
  if (name == "text-generation-inference")
    line.defaults.try_emplace("PORT", "80");
  if (name == "llama.cpp")
    line.defaults.try_emplace("LLAMA_ARG_HOST", "0.0.0.0");
}

} // namespace

launch_port port_of(std::string_view text) {
  launch_port p;
  text = text.substr(0, text.find('/'));
  const auto last = text.rfind(':');
  if (last == text.npos) {
    p.inside = text;
    return p;
  }
  p.inside = text.substr(last + 1);
  text = text.substr(0, last);
  const auto before = text.rfind(':');
  p.outside = text.substr(before == text.npos ? 0 : before + 1);
  if (before != text.npos)
    p.address = text.substr(0, before);
  std::erase_if(p.address, [](char c) { return c == '[' || c == ']'; });
  return p;
}

std::optional<launch_mount> mount_of(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos || colon == 0)
    return std::nullopt;
  launch_mount m;
  m.outside = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  m.inside = text.substr(0, text.find(':'));
  return m.inside.empty() ? std::nullopt : std::optional(m);
}

std::optional<std::vector<std::string>> command_in(const std::string& image,
                                                   const std::optional<std::string>& entry_point,
                                                   std::vector<std::string> arguments) {
  if (entry_point) {
    arguments.insert(arguments.begin(), *entry_point);
    return arguments;
  }
  if (!arguments.empty() && is_launch_program(arguments[0]) && arguments[0][0] != '-')
    return arguments;
  const auto [name, tag] = parts_of(image);
  std::vector<std::string> program;
  if (name.starts_with("vllm"))
    program = {"vllm", "serve"};
  else if (name == "text-generation-inference")
    program = {"text-generation-launcher"};
  else if (name == "llama.cpp" && tag.starts_with("server"))
    program = {"llama-server"};
  else if (name == "llama.cpp" && !arguments.empty() &&
           (arguments[0] == "--server" || arguments[0] == "-s")) {
    program = {"llama-server"};
    arguments.erase(arguments.begin());
  } else if (name.starts_with("torchserve") && (arguments.empty() || arguments[0] == "serve")) {
    program = {"torchserve", "--start", "--disable-token-auth"};
    arguments.clear();
  } else if (image.starts_with("ts/llm")) { // as TorchServe's docs/llm_deployment.md builds it
    program = {"python", "-m", "ts.llm_launcher", "--vllm_engine.download_dir", "/data"};
  } else {
    return std::nullopt;
  }
  arguments.insert(arguments.begin(), program.begin(), program.end());
  return arguments;
}

result<launch_line> read_container(std::span<const std::string> args) {
  launch_line around;
  container_args rest = args;
  take_options(rest); // options of the tool itself
  if (!rest.empty() && rest[0] == "container")
    rest = rest.subspan(1);
  if (rest.empty() || (rest[0] != "run" && rest[0] != "create"))
    return fail(errc::bad_config,
                "only `run` and `create` of a container tool are read, and compose files by name: "
                "`cluster import compose.yaml`");
  rest = rest.subspan(1);
  std::optional<std::string> entry_point;
  for (const auto& o : take_options(rest))
    if (o.name == "--entrypoint")
      entry_point = o.value;
    else
      take(o, around);
  if (rest.empty())
    return fail(errc::bad_config, "the line names no image");
  const auto image = rest[0];
  const auto command = command_in(image, entry_point, {rest.begin() + 1, rest.end()});
  if (!command)
    return fail(errc::bad_config,
                "it is not known what image {} starts: give the server's line behind its name, or "
                "with --entrypoint",
                image);
  auto line = read_launch_line(*command);
  if (!line)
    return line;
  add_defaults_of(image, *line);
  line->variables.merge(around.variables);
  line->env_files = std::move(around.env_files);
  line->mounts = std::move(around.mounts);
  line->ports = std::move(around.ports);
  line->has_host_network = around.has_host_network;
  line->gpus = around.gpus;
  line->is_container = true;
  line->image = image;
  line->notes.insert(line->notes.begin(), around.notes.begin(), around.notes.end());
  return line;
}

} // namespace baton::cluster::start_line
