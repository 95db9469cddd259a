#include "cluster/import/launch_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace baton::cluster {
namespace {

constexpr std::string_view readable =
    "vllm serve, python -m vllm.entrypoints.openai.api_server, text-generation-launcher, "
    "llama-server, python -m sglang.launch_server, torchserve, tritonserver, each also behind "
    "`docker run` or `podman run`";
constexpr std::size_t wrappings_max = 16; // env within sh within docker, and so on

std::string_view base_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_python(std::string_view word) {
  const auto base = base_of(word);
  return base.starts_with("python") &&
         base.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

bool is_assignment(std::string_view word) {
  const auto equals = word.find('=');
  return equals != word.npos && equals > 0 && !std::isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

bool is_container_tool(std::string_view word) {
  const auto base = base_of(word);
  return base == "docker" || base == "podman" || base == "nerdctl";
}

bool is_shell(std::string_view word) {
  const auto base = base_of(word);
  return base == "sh" || base == "bash" || base == "dash" || base == "zsh";
}

// Programs that start another one, and those of their options that take a value.
struct wrapper {
  std::string_view program, with_values;
  bool has_first_word = false; // "run" of `uv run`
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

const wrapper* wrapper_of(std::string_view word) {
  const auto* found = std::find_if(std::begin(wrappers), std::end(wrappers),
                                   [&](const wrapper& w) { return w.program == base_of(word); });
  return found == std::end(wrappers) ? nullptr : found;
}

struct server {
  std::string_view program; // or a Python module
  launcher is;
  bool is_module = false;
  std::string_view first = {}; // the word that must follow: "serve"
};
constexpr server servers[] = {
    {"vllm", launcher::vllm, false, "serve"},
    {"vllm.entrypoints.openai.api_server", launcher::vllm, true},
    {"vllm.entrypoints.api_server", launcher::vllm, true},
    {"vllm.entrypoints.cli.main", launcher::vllm, true, "serve"},
    {"text-generation-launcher", launcher::tgi},
    {"llama-server", launcher::llama},
    {"llama_server", launcher::llama},
    {"sglang", launcher::sglang, false, "serve"},
    {"sglang.launch_server", launcher::sglang, true},
    {"sglang_router.launch_server", launcher::sglang, true},
    {"torchserve", launcher::torchserve},
    {"tritonserver", launcher::triton},
};

using words_view = std::span<const std::string>;

// Drops the options of the wrapper itself.
words_view without_options(words_view words, std::string_view with_values) {
  while (!words.empty() && words[0].size() > 1 && words[0][0] == '-') {
    const bool has_value = with_values.find(" " + words[0] + " ") != with_values.npos;
    words = words.subspan(std::min<std::size_t>(has_value ? 2 : 1, words.size()));
  }
  return words;
}

std::optional<launch_line> as_server(words_view words) {
  const bool is_module = is_python(words[0]);
  if (is_module) {
    words = without_options(words.subspan(1), " -X -W ");
    // `-m` is the last of Python's own options: the module's follow it.
    const auto* last = words.data();
    if (words.empty() || *(last - 1) != "-m")
      return std::nullopt;
  }
  const auto name = is_module ? std::string_view(words[0]) : base_of(words[0]);
  for (const auto& s : servers) {
    if (s.is_module != is_module || s.program != name)
      continue;
    auto rest = words.subspan(1);
    if (!s.first.empty()) {
      if (rest.empty() || rest[0] != s.first)
        continue;
      rest = rest.subspan(1);
    }
    launch_line line;
    line.program = s.is;
    line.words.assign(rest.begin(), rest.end());
    return line;
  }
  return std::nullopt;
}

error none_of_them(words_view words) {
  constexpr std::size_t shown_max = 3;
  return fail(errc::bad_config, "'{}' starts none of: {}",
              fmt::join(words.first(std::min(shown_max, words.size())), " "), readable);
}

result<launch_line> read_wrapped(words_view words, std::size_t depth);

// `sh -c "pip install x && vllm serve ..."`: the first command in it that starts a server.
result<launch_line> read_shell(words_view words, std::size_t depth) {
  const auto command = std::find_if(words.begin(), words.end(), [](const std::string& w) {
    return w.size() > 1 && w[0] == '-' && w.back() == 'c';
  });
  if (command == words.end() || command + 1 == words.end())
    return none_of_them(words);
  auto commands = split_shell(*(command + 1));
  if (!commands)
    return commands.error();
  for (const auto& one : *commands)
    if (auto line = read_wrapped(one, depth + 1))
      return line;
  return none_of_them(words);
}

result<launch_line> read_wrapped(words_view words, std::size_t depth) {
  std::map<std::string, std::string> variables;
  const auto all = words;
  while (!words.empty() && depth <= wrappings_max) {
    if (is_assignment(words[0])) {
      const auto equals = words[0].find('=');
      variables[words[0].substr(0, equals)] = words[0].substr(equals + 1);
      words = words.subspan(1);
      continue;
    }
    const auto* around = wrapper_of(words[0]);
    if (!around)
      break;
    words = without_options(words.subspan(1), around->with_values);
    if (around->has_first_word) {
      if (words.empty() || words[0] != "run")
        break;
      words = without_options(words.subspan(1), around->with_values);
    }
  }
  if (words.empty() || depth > wrappings_max)
    return none_of_them(all);
  auto line = [&]() -> result<launch_line> {
    if (is_shell(words[0]))
      return read_shell(words, depth);
    if (is_container_tool(words[0]))
      return start_line::read_container(words.subspan(1));
    if (auto server = as_server(words))
      return *std::move(server);
    return none_of_them(words);
  }();
  if (line)
    line->variables.merge(variables); // the innermost assignment wins
  return line;
}

} // namespace

bool is_launch_word(std::string_view word) noexcept {
  return is_python(word) || is_container_tool(word) || is_shell(word) || wrapper_of(word) ||
         is_assignment(word) ||
         std::any_of(std::begin(servers), std::end(servers),
                     [&](const server& s) { return !s.is_module && s.program == base_of(word); });
}

result<launch_line> read_launch_line(std::span<const std::string> words) {
  return read_wrapped(words, 0);
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
  return {it->address.empty() ? "0.0.0.0" : it->address,
          it->outside.empty() ? std::move(port) : it->outside};
}

result<std::vector<std::vector<std::string>>> split_shell(std::string_view text) {
  std::vector<std::vector<std::string>> commands(1);
  std::string word;
  bool in_word = false;
  char quote = 0;
  const auto end_word = [&] {
    if (in_word)
      commands.back().push_back(std::move(word));
    word.clear();
    in_word = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      ++i;
      if (text[i] == '\n')
        continue; // a line continuation
      if (quote == '"' && std::string_view("\"\\$`").find(text[i]) == std::string_view::npos)
        word += c;
      word += text[i];
      in_word = true;
    } else if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else if (c == '>' || c == '<') { // "2>&1", ">> log": a redirection
      if (word.find_first_not_of("0123456789") != word.npos)
        end_word();
      word.clear();
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
      word += c;
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

} // namespace baton::cluster
