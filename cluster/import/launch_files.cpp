#include "cluster/import/launch_files.hpp"

#include "cluster/import/launch_args.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace baton::cluster {
namespace {

constexpr std::string_view env_blanks = " \t\r";

std::string_view trimmed_left(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(env_blanks), text.size()));
  return text;
}

std::string_view trimmed(std::string_view text) {
  text = trimmed_left(text);
  return text.substr(0, text.find_last_not_of(env_blanks) + 1);
}

// Reads one file line by line. In the compose format, a quoted value may span lines.
class env_reader {
public:
  env_reader(std::string_view text, env_file_kind kind, const variable_lookup& variable)
      : text_(text), is_plain_(kind == env_file_kind::plain), variable_(variable) {}

  result<std::map<std::string, std::string>> read() {
    if (text_.starts_with("\xef\xbb\xbf"))
      text_.remove_prefix(3);
    while (!text_.empty()) {
      ++line_;
      if (auto ok = take(next_line()); !ok)
        return ok.error();
    }
    return std::move(all_);
  }

private:
  std::string_view next_line() {
    const auto end = std::min(text_.find('\n'), text_.size());
    auto line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    return line;
  }

  result<void> take(std::string_view line) {
    line = trimmed_left(line);
    if (!is_plain_ && line.starts_with("export "))
      line = trimmed_left(line.substr(7));
    if (line.empty() || line.front() == '#')
      return {};
    const auto equals = line.find('=');
    const auto entry = line.substr(0, equals);
    const auto name = std::string(is_plain_ ? entry : trimmed(entry));
    if (name.empty() || name.find_first_of(env_blanks) != name.npos)
      return fail(errc::bad_config, "line {}: '{}' is no name of a variable", line_,
                  name.substr(0, 64));
    if (equals == line.npos) {
      if (auto value = variable_(name))
        all_[name] = *std::move(value);
      return {};
    }
    const auto rest = line.substr(equals + 1);
    if (is_plain_) {
      all_[name] = rest;
      return {};
    }
    auto value = value_of(trimmed_left(rest));
    if (!value)
      return value.error();
    all_[name] = *std::move(value);
    return {};
  }

  // An earlier variable of the file is used only if the shell does not set it.
  std::string interpolated(std::string_view text) const {
    return start_line::interpolated(text, [this](const std::string& name) {
      auto value = variable_(name);
      if (const auto it = all_.find(name); !value && it != all_.end())
        value = it->second;
      return value;
    });
  }

  result<std::string> value_of(std::string_view rest) {
    if (rest.empty() || (rest.front() != '"' && rest.front() != '\'')) {
      for (std::size_t i = 1; i < rest.size(); ++i)
        if (rest[i] == '#' && env_blanks.find(rest[i - 1]) != env_blanks.npos)
          rest = rest.substr(0, i);
      if (rest.starts_with('#'))
        rest = {};
      return interpolated(trimmed(rest));
    }
    const auto first = line_;
    const char quote = rest.front();
    std::string value;
    for (std::size_t i = 1;; ++i) {
      if (i >= rest.size()) {
        if (text_.empty())
          return fail(errc::bad_config, "line {}: a quote {} has no end", first, quote);
        value += '\n';
        ++line_;
        rest = next_line();
        i = static_cast<std::size_t>(-1); // the loop continues at its first character
        continue;
      }
      if (rest[i] == quote)
        break;
      if (rest[i] == '\\' && i + 1 < rest.size()) {
        append_escaped(value, quote, rest[++i]);
        continue;
      }
      value += rest[i];
    }
    return quote == '"' ? interpolated(value) : value;
  }

  static void append_escaped(std::string& value, char quote, char c) {
    if (c == quote || (quote == '"' && c == '\\'))
      value += c;
    else if (quote == '"' && c == 'n')
      value += '\n';
    else if (quote == '"' && c == 't')
      value += '\t';
    else if (quote == '"' && c == 'r')
      value += '\r';
    else if (quote == '"' && c == '$')
      value += "$$"; // interpolation reduces it to one
    else
      (value += '\\') += c;
  }

  std::string_view text_;
  bool is_plain_;
  const variable_lookup& variable_;
  std::map<std::string, std::string> all_;
  std::size_t line_ = 0;
};

// Follows YAML 1.1, as Python's parser does: a quoted value is a text.
std::optional<bool> flag_of(const YAML::Node& node) {
  if (!node.IsScalar() || node.Tag() == "!")
    return std::nullopt;
  bool value = false;
  return YAML::convert<bool>::decode(node, value) && node.Scalar().size() > 1 ? std::optional(value)
                                                                              : std::nullopt;
}

// Emits a value on one line, as options that take JSON require.
std::string flow_text(const YAML::Node& node) {
  YAML::Emitter out;
  out.SetMapFormat(YAML::Flow);
  out.SetSeqFormat(YAML::Flow);
  out.SetStringFormat(YAML::DoubleQuoted);
  out << node;
  std::string text = out.c_str();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

void add_args(const start_line::dialect& in, const std::string& key, const YAML::Node& value,
              std::vector<std::string>& args) {
  const auto flag = flag_of(value);
  if (value.IsNull() || (value.IsSequence() && value.size() == 0))
    return;
  if (flag && !*flag) {
    auto dashed = "--no-" + key;
    std::ranges::replace(dashed, '_', '-');
    if (start_line::find_option(in, dashed))
      args.push_back(std::move(dashed));
    return;
  }
  if (value.IsScalar() && !flag) { // one word, so that "-1" is not taken for an option
    args.push_back(fmt::format("--{}={}", key, value.Scalar()));
    return;
  }
  args.push_back("--" + key);
  if (value.IsSequence())
    for (const auto& item : value)
      args.push_back(item.IsScalar() ? item.Scalar() : flow_text(item));
  else if (value.IsMap())
    args.back() += "=" + flow_text(value);
}

constexpr std::string_view config_option = "--config";

// Position and value of --config; `taken` is the number of its words. None: it is absent.
std::optional<std::pair<std::size_t, std::string>> config_of(const std::vector<std::string>& args,
                                                             std::size_t& taken) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i] == config_option) {
      taken = std::min<std::size_t>(2, args.size() - i);
      return std::pair(i, taken == 2 ? args[i + 1] : std::string());
    }
    if (args[i].starts_with("--config=")) {
      taken = 1;
      return std::pair(i, args[i].substr(config_option.size() + 1));
    }
  }
  return std::nullopt;
}

error cannot_take(std::string_view option, const std::string& path, const error& why) {
  return fail_param(why.code, option, "{} {}: {}", option, path, why.message);
}

// Inserts the file's words behind a positional model, and before all other words.
result<void> take_config(launch_line& line, const file_lookup& read) {
  if (line.program != launcher::vllm && line.program != launcher::sglang)
    return {};
  std::size_t taken = 0;
  const auto found = config_of(line.args, taken);
  if (!found)
    return {};
  const auto& [at, path] = *found;
  if (path.empty())
    return fail_param(errc::bad_config, config_option, "--config needs a file");
  const auto outside = line.outside(path);
  if (line.is_container && outside == path)
    return fail_param(errc::bad_config, config_option,
                      "--config {} is of the container, and nothing of this machine is mounted "
                      "there: give its lines as options",
                      path);
  auto text = read(outside);
  if (!text)
    return cannot_take(config_option, path, text.error());
  auto args = config_args(line.program, *text);
  if (!args)
    return cannot_take(config_option, path, args.error());
  const auto config_position = line.args.begin() + static_cast<std::ptrdiff_t>(at);
  line.args.erase(config_position, config_position + static_cast<std::ptrdiff_t>(taken));
  if (config_of(line.args, taken))
    return fail_param(errc::bad_config, config_option, "--config is given twice");
  const bool has_model = !line.args.empty() && !line.args.front().starts_with('-');
  if (has_model)
    std::erase_if(*args, [](const std::string& w) { return w.starts_with("--model="); });
  line.args.insert(line.args.begin() + (has_model ? 1 : 0), args->begin(), args->end());
  line.notes.push_back(
      fmt::format("{} is read: the command's own options override its lines", path));
  return {};
}

} // namespace

result<std::map<std::string, std::string>> read_env_file(std::string_view text, env_file_kind kind,
                                                         const variable_lookup& variable) {
  return env_reader(text, kind, variable).read();
}

result<std::vector<std::string>> config_args(launcher program, std::string_view yaml) {
  const auto& in = program == launcher::sglang ? start_line::sglang : start_line::vllm;
  std::vector<std::string> args;
  try { // the boundary to yaml-cpp, which throws
    const auto root = YAML::Load(std::string(yaml));
    if (root.IsNull())
      return args;
    if (!root.IsMap())
      return fail(errc::bad_config, "it is no map of options");
    for (const auto& entry : root) {
      const auto key = entry.first.IsScalar() ? entry.first.Scalar() : std::string();
      if (key.empty() || key == "config")
        return fail(errc::bad_config, "line {}: '{}' is no option", entry.first.Mark().line + 1,
                    key);
      add_args(in, key, entry.second, args);
    }
  } catch (const YAML::Exception& e) {
    return fail(errc::bad_config, "line {}: {}", e.mark.line + 1, e.msg);
  }
  return args;
}

result<void> take_files(launch_line& line, const file_lookup& read,
                        const variable_lookup& variable) {
  std::map<std::string, std::string> of_files;
  for (const auto& file : line.env_files) {
    auto text = read(file.path);
    if (!text && !file.is_required)
      continue;
    if (!text)
      return cannot_take("--env-file", file.path, text.error());
    auto all = read_env_file(*text, file.kind, variable);
    if (!all)
      return cannot_take("--env-file", file.path, all.error());
    for (auto& [name, value] : *all)
      of_files[name] = std::move(value); // the last file overrides the others
  }
  line.variables.merge(of_files);
  line.env_files.clear();
  return take_config(line, read);
}

} // namespace baton::cluster
