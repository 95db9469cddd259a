#include "cluster/import/launch_args.hpp"

#include "schema/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace baton::cluster::start_line {
namespace {

bool is_option(const std::string& arg) {
  return arg.size() > 1 && arg.front() == '-' && (arg[1] < '0' || arg[1] > '9');
}

std::vector<std::string_view> all_names(const dialect& in) {
  std::vector<std::string_view> all;
  for (const auto& o : in.options)
    for (const auto name : split(o.names))
      all.push_back(name);
  return all;
}

// The only option with this prefix, as Python's argparse matches it.
const option* option_with_prefix(const dialect& in, std::string_view name) {
  const option* found = nullptr;
  if (!in.accepts_prefixes || !name.starts_with("--"))
    return found;
  for (const auto& o : in.options)
    for (const auto own : split(o.names))
      if (own.starts_with(name)) {
        if (found && found != &o)
          return nullptr;
        found = &o;
      }
  return found;
}

// The switch without a counterpart whose form for "off" this is: "--no-trust-remote-code".
const option* option_negated(const dialect& in, std::string_view name) {
  constexpr std::string_view lead = "--no-";
  if (!in.has_negations || !name.starts_with(lead))
    return nullptr;
  const auto* o = find_option(in, fmt::format("--{}", name.substr(lead.size())));
  return o && o->is == kind::without ? o : nullptr;
}

// Values of switches that take one in some versions.
bool is_switch_value(std::string_view arg) {
  constexpr std::string_view args[] = {"true", "false", "True", "False", "on", "off", "auto"};
  return std::ranges::find(args, arg) != std::end(args);
}

// Whether the option takes all following words as its values, as in the other server.
bool takes_all(const option* o) {
  return !o || o->is == kind::name || o->is == kind::without_values || o->is == kind::several ||
         o->is == kind::devices;
}

// vLLM's forms: "--speculative-config.method ngram", "-O3", "-O.level=3".
bool is_member(const dialect& in, std::string& name, std::vector<std::string>& values) {
  if (const auto dot = name.find('.', 2); dot != name.npos && find_option(in, name.substr(0, dot)))
    return true;
  if (name.starts_with("-O") && name.size() > 2 && find_option(in, "-O")) {
    if (values.empty())
      values.push_back(name.substr(2));
    name = "-O";
    return false;
  }
  return false;
}

} // namespace

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end > 0)
      parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

const option* find_option(const dialect& in, std::string_view name) {
  for (const auto& o : in.options)
    if (const auto names = split(o.names); std::ranges::find(names, name) != names.end())
      return &o;
  return nullptr;
}

result<parsed_args> parse_args(const dialect& in, std::span<const std::string> args) {
  parsed_args all;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!is_option(args[i])) {
      all.others.push_back(args[i]);
      continue;
    }
    const auto equals = args[i].find('=');
    parsed_option parsed;
    parsed.name = args[i].substr(0, equals);
    std::ranges::replace(parsed.name, '_', '-'); // Python's parsers accept both
    if (equals != std::string::npos)
      parsed.values.push_back(args[i].substr(equals + 1));
    const bool belongs_to_another = is_member(in, parsed.name, parsed.values);
    parsed.what = find_option(in, parsed.name);
    if (!parsed.what && !belongs_to_another)
      parsed.what = option_with_prefix(in, parsed.name);
    if (!parsed.what && !belongs_to_another)
      parsed.what = option_negated(in, parsed.name);
    const bool bare = parsed.what && is_bare(parsed.what->is);
    const auto refuse = [&](std::string_view why) {
      return fail_param(errc::bad_config, parsed.name.c_str(), "{} {}", parsed.name, why);
    };
    if (bare && !parsed.values.empty() && parsed.what->is != kind::without)
      return refuse("takes no value");
    if (bare && parsed.what->is == kind::without && i + 1 < args.size() &&
        is_switch_value(args[i + 1]))
      ++i;
    if (!bare && parsed.values.empty())
      while (i + 1 < args.size() && !is_option(args[i + 1]) &&
             (takes_all(parsed.what) || parsed.values.empty()))
        parsed.values.push_back(args[++i]);
    const bool may_be_bare = bare || (parsed.what && parsed.what->is == kind::without_a_value);
    if (parsed.what && !may_be_bare && parsed.values.empty())
      return refuse("needs a value");
    if (belongs_to_another)
      parsed.what = nullptr;
    all.options.push_back(std::move(parsed));
  }
  return all;
}

std::string left_out(const dialect& in, const parsed_option& parsed) {
  if (parsed.what)
    return fmt::format("{} is left out: {}", parsed.name, parsed.what->to);
  if (const auto dot = parsed.name.find('.', 2);
      dot != parsed.name.npos && find_option(in, parsed.name.substr(0, dot)))
    return fmt::format("{} is left out: GIVE {} AS ONE JSON OBJECT", parsed.name,
                       parsed.name.substr(0, dot));
  const auto names = all_names(in);
  const auto near = nearest_name(parsed.name, names);
  return fmt::format("{} IS NOT KNOWN: {} has no such option{}", parsed.name, in.name,
                     near ? fmt::format("; did you mean {}?", *near) : "");
}

} // namespace baton::cluster::start_line
