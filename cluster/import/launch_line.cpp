#include "cluster/import/launch_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace baton::cluster {
namespace {

constexpr std::string_view readable =
    "vllm serve, python -m vllm.entrypoints.openai.api_server, text-generation-launcher, "
    "llama-server, python -m sglang.launch_server, torchserve, python -m ts.llm_launcher, "
    "tritonserver, python openai_frontend/main.py, each also behind `docker run` or `podman run`";
constexpr std::size_t wrappings_max = 16; // env within sh within docker, and so on

std::string_view base_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Whether the path is `end`, or ends with it behind a slash.
bool ends_path(std::string_view path, std::string_view end) {
  return path.ends_with(end) &&
         (path.size() == end.size() || path[path.size() - end.size() - 1] == '/');
}

bool is_python(std::string_view arg) {
  const auto base = base_of(arg);
  return base.starts_with("python") &&
         base.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

bool is_assignment(std::string_view arg) {
  const auto equals = arg.find('=');
  return equals != arg.npos && equals > 0 && !std::isdigit(static_cast<unsigned char>(arg[0])) &&
         std::all_of(arg.begin(), arg.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

bool is_container_tool(std::string_view arg) {
  const auto base = base_of(arg);
  return base == "docker" || base == "podman" || base == "nerdctl";
}

bool is_shell(std::string_view arg) {
  const auto base = base_of(arg);
  return base == "sh" || base == "bash" || base == "dash" || base == "zsh";
}

// Programs that start another one, and those of their options that take a value.
struct wrapper {
  std::string_view program, with_values;
  bool has_subcommand = false; // "run" of `uv run`
};
constexpr wrapper wrappers[] = {
    {"env", " -u --unset -C --chdir "},
    {"sudo", " -u --user -g --group "},
    {"nohup", ""},
    {"exec", ""},
    {"time", ""},
    {"setsid", ""},
    {"nice", " -n --adjustment "},
    {"stdbuf", " -i -o -e "},
    {"numactl", " -N -m -C -i -p "},
    {"uv", " --with --python -p --project ", true},
    {"poetry", "", true},
};

const wrapper* wrapper_of(std::string_view arg) {
  const auto* found = std::find_if(std::begin(wrappers), std::end(wrappers),
                                   [&](const wrapper& w) { return w.program == base_of(arg); });
  return found == std::end(wrappers) ? nullptr : found;
}

enum class started_by { name, module, script };
struct server {
  std::string_view program; // or a Python module, or the end of a script's path
  launcher is;
  started_by by = started_by::name;
  std::string_view first = {}; // the word that must follow: "serve"
};
constexpr server servers[] = {
    {"vllm", launcher::vllm, started_by::name, "serve"},
    {"vllm.entrypoints.openai.api_server", launcher::vllm, started_by::module},
    {"vllm.entrypoints.api_server", launcher::vllm, started_by::module},
    {"vllm.entrypoints.cli.main", launcher::vllm, started_by::module, "serve"},
    {"text-generation-launcher", launcher::tgi},
    {"llama-server", launcher::llama},
    {"llama_server", launcher::llama},
    {"sglang", launcher::sglang, started_by::name, "serve"},
    {"sglang.launch_server", launcher::sglang, started_by::module},
    {"sglang_router.launch_server", launcher::sglang, started_by::module},
    {"torchserve", launcher::torchserve},
    {"ts.llm_launcher", launcher::torchserve_llm, started_by::module},
    {"tritonserver", launcher::triton},
    {"openai_frontend/main.py", launcher::triton_openai, started_by::script},
};

using args_view = std::span<const std::string>;

// Drops the options of the wrapper itself.
args_view without_options(args_view args, std::string_view with_values) {
  while (!args.empty() && args[0].size() > 1 && args[0][0] == '-') {
    const bool has_value = with_values.find(" " + args[0] + " ") != with_values.npos;
    args = args.subspan(std::min<std::size_t>(has_value ? 2 : 1, args.size()));
  }
  return args;
}

std::optional<launch_line> as_server(args_view args) {
  auto by = started_by::name;
  if (is_python(args[0])) {
    args = without_options(args.subspan(1), " -X -W ");
    if (args.empty())
      return std::nullopt;
    // `-m` is the last of Python's own options: the module's follow it.
    by = *(args.data() - 1) == "-m" ? started_by::module : started_by::script;
  }
  const auto is_started = [&](const server& s) {
    return s.by == by && (by == started_by::name     ? s.program == base_of(args[0])
                          : by == started_by::module ? s.program == args[0]
                                                     : ends_path(args[0], s.program));
  };
  for (const auto& s : servers) {
    if (!is_started(s))
      continue;
    auto rest = args.subspan(1);
    if (!s.first.empty()) {
      if (rest.empty() || rest[0] != s.first)
        continue;
      rest = rest.subspan(1);
    }
    launch_line line;
    line.program = s.is;
    line.args.assign(rest.begin(), rest.end());
    return line;
  }
  return std::nullopt;
}

error none_of_them(args_view args) {
  constexpr std::size_t shown_max = 3;
  return fail(errc::bad_config, "'{}' starts none of: {}",
              fmt::join(args.first(std::min(shown_max, args.size())), " "), readable);
}

result<launch_line> read_wrapped(args_view args, std::size_t depth);

// The first command of a line of the shell that starts a server: "pip install x && vllm serve ...".
result<launch_line> read_text(args_view args, const std::string& text, std::size_t depth) {
  auto commands = split_shell(text);
  if (!commands)
    return commands.error();
  for (const auto& one : *commands)
    if (auto line = read_wrapped(one, depth + 1))
      return line;
  return none_of_them(args);
}

// A word with spaces is a whole line: no program has such a name.
bool is_whole_line(std::string_view arg) {
  return arg.find_first_of(" \t\n") != arg.npos;
}

// `sh -c "..."`
result<launch_line> read_shell(args_view args, std::size_t depth) {
  const auto command = std::find_if(args.begin(), args.end(), [](const std::string& w) {
    return w.size() > 1 && w[0] == '-' && w.back() == 'c';
  });
  if (command == args.end() || command + 1 == args.end())
    return none_of_them(args);
  return read_text(args, *(command + 1), depth);
}

result<launch_line> read_wrapped(args_view args, std::size_t depth) {
  std::map<std::string, std::string> variables;
  const auto all = args;
  while (!args.empty() && depth <= wrappings_max) {
    if (is_assignment(args[0])) {
      const auto equals = args[0].find('=');
      variables[args[0].substr(0, equals)] = args[0].substr(equals + 1);
      args = args.subspan(1);
      continue;
    }
    const auto* around = wrapper_of(args[0]);
    if (!around)
      break;
    args = without_options(args.subspan(1), around->with_values);
    if (around->has_subcommand) {
      if (args.empty() || args[0] != "run")
        break;
      args = without_options(args.subspan(1), around->with_values);
    }
  }
  if (args.empty() || depth > wrappings_max)
    return none_of_them(all);
  auto line = [&]() -> result<launch_line> {
    if (is_shell(args[0]))
      return read_shell(args, depth);
    if (is_container_tool(args[0]))
      return start_line::read_container(args.subspan(1));
    if (auto server = as_server(args))
      return *std::move(server);
    return none_of_them(args);
  }();
  if (line)
    line->variables.merge(variables); // the innermost assignment wins
  return line;
}

} // namespace

bool is_launch_program(std::string_view arg) {
  if (is_whole_line(arg)) {
    const auto commands = split_shell(arg);
    return commands && std::any_of(commands->begin(), commands->end(), [](const auto& one) {
             return !one.empty() && !is_whole_line(one[0]) && is_launch_program(one[0]);
           });
  }
  return is_python(arg) || is_container_tool(arg) || is_shell(arg) || wrapper_of(arg) ||
         is_assignment(arg) ||
         std::any_of(std::begin(servers), std::end(servers), [&](const server& s) {
           return s.by == started_by::name && s.program == base_of(arg);
         });
}

result<launch_line> read_launch_line(std::span<const std::string> args) {
  return args.size() == 1 && is_whole_line(args[0]) ? read_text(args, args[0], 0)
                                                    : read_wrapped(args, 0);
}

std::string launch_line::outside(const std::string& path) const {
  const launch_mount* nearest = nullptr;
  for (const auto& m : mounts) {
    const bool is_under =
        path == m.inside ||
        (path.starts_with(m.inside) && (m.inside.back() == '/' || path[m.inside.size()] == '/'));
    if (is_under && (!nearest || m.inside.size() > nearest->inside.size()))
      nearest = &m;
  }
  if (!nearest)
    return path;
  auto rest = path.substr(nearest->inside.size());
  if (rest.starts_with('/') && nearest->outside.ends_with('/'))
    rest.erase(0, 1);
  else if (!rest.empty() && !rest.starts_with('/') && !nearest->outside.ends_with('/'))
    rest.insert(0, "/");
  return nearest->outside + rest;
}

std::string launch_address::text() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

launch_address launch_line::reached_at(std::string host, std::string port) const {
  if (!is_container || has_host_network)
    return {std::move(host), std::move(port)};
  const auto it = std::find_if(ports.begin(), ports.end(),
                               [&](const launch_port& p) { return p.inside == port; });
  if (it == ports.end())
    return {"127.0.0.1", std::move(port), false};
  if (!it->outside.empty())
    port = it->outside;
  return {it->address.empty() ? "0.0.0.0" : it->address, std::move(port)};
}

result<std::vector<std::vector<std::string>>> split_shell(std::string_view text) {
  std::vector<std::vector<std::string>> commands(1);
  std::string arg;
  bool in_word = false;
  char quote = 0;
  const auto end_word = [&] {
    if (in_word)
      commands.back().push_back(std::move(arg));
    arg.clear();
    in_word = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      ++i;
      if (text[i] == '\n')
        continue; // a line continuation
      if (quote == '"' && std::string_view("\"\\$`").find(text[i]) == std::string_view::npos)
        arg += c;
      arg += text[i];
      in_word = true;
    } else if (quote) {
      if (c == quote)
        quote = 0;
      else
        arg += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '>' || c == '<') { // "2>&1", ">> log": a redirection
      if (arg.find_first_not_of("0123456789") != arg.npos)
        end_word();
      arg.clear();
      in_word = false;
      const auto target = std::min(text.find_first_not_of("<>& \t", i), text.size());
      i = std::min(text.find_first_of(" \t\r\n;&|<>", target), text.size()) - 1;
    } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
      end_word();
      if (!commands.back().empty())
        commands.emplace_back();
    } else if (c == '#' && !in_word) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else {
      arg += c;
      in_word = true;
    }
  }
  if (quote)
    return fail(errc::bad_config, "the command has a quote {} without an end", quote);
  end_word();
  if (commands.back().empty() && commands.size() > 1)
    commands.pop_back();
  return commands;
}

namespace start_line {

void note_variables(const launch_line& line, std::string_view read,
                    std::vector<std::string>& notes) {
  for (const auto& [name, value] : line.variables)
    if (name != read)
      notes.push_back(fmt::format("the variable {} is left out: {}", name,
                                  name.starts_with("TS_")
                                      ? "settings are those of options and config.properties"
                                      : "workers have the environment of `cluster up`"));
}

} // namespace start_line

} // namespace baton::cluster
