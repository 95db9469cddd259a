#include "cluster/import/launch_words.hpp"

#include "schema/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace baton::cluster::start_line {
namespace {

bool is_option_word(const std::string& word) {
  return word.size() > 1 && word.front() == '-' && (word[1] < '0' || word[1] > '9');
}

std::vector<std::string_view> all_names(const dialect& in) {
  std::vector<std::string_view> all;
  for (const auto& o : in.options)
    for (const auto name : split(o.names))
      all.push_back(name);
  return all;
}

// The only option with this prefix, as Python's argparse matches it.
const option* option_beginning(const dialect& in, std::string_view name) {
  const option* found = nullptr;
  if (!in.takes_beginnings || !name.starts_with("--"))
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

// Values of switches that take one in some versions.
bool is_switch_word(std::string_view word) {
  constexpr std::string_view words[] = {"true", "false", "True", "False", "on", "off", "auto"};
  return std::ranges::find(words, word) != std::end(words);
}

// Whether the option takes all following words as its values, as in the other server.
bool takes_all(const option* o) {
  return !o || o->is == kind::name || o->is == kind::without_values || o->is == kind::several;
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

result<said_words> read_words(const dialect& in, std::span<const std::string> words) {
  said_words all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_option_word(words[i])) {
      all.others.push_back(words[i]);
      continue;
    }
    const auto equals = words[i].find('=');
    said_option said;
    said.name = words[i].substr(0, equals);
    std::ranges::replace(said.name, '_', '-'); // Python's parsers accept both
    if (equals != std::string::npos)
      said.values.push_back(words[i].substr(equals + 1));
    const bool belongs_to_another = is_member(in, said.name, said.values);
    said.what = find_option(in, said.name);
    if (!said.what && !belongs_to_another)
      said.what = option_beginning(in, said.name);
    const bool bare = said.what && is_bare(said.what->is);
    const auto refuse = [&](std::string_view why) {
      return fail_param(errc::bad_config, said.name.c_str(), "{} {}", said.name, why);
    };
    if (bare && !said.values.empty() && said.what->is != kind::without)
      return refuse("takes no value");
    if (bare && said.what->is == kind::without && i + 1 < words.size() &&
        is_switch_word(words[i + 1]))
      ++i;
    if (!bare && said.values.empty())
      while (i + 1 < words.size() && !is_option_word(words[i + 1]) &&
             (takes_all(said.what) || said.values.empty()))
        said.values.push_back(words[++i]);
    const bool may_be_bare = bare || (said.what && said.what->is == kind::without_a_value);
    if (said.what && !may_be_bare && said.values.empty())
      return refuse("needs a value");
    if (belongs_to_another)
      said.what = nullptr;
    all.options.push_back(std::move(said));
  }
  return all;
}

std::string left_out(const dialect& in, const said_option& said) {
  if (said.what)
    return fmt::format("{} is left out: {}", said.name, said.what->to);
  if (const auto dot = said.name.find('.', 2);
      dot != said.name.npos && find_option(in, said.name.substr(0, dot)))
    return fmt::format("{} is left out: GIVE {} AS ONE JSON OBJECT", said.name,
                       said.name.substr(0, dot));
  const auto names = all_names(in);
  const auto near = nearest_name(said.name, names);
  return fmt::format("{} IS NOT KNOWN: {} has no such option{}", said.name, in.name,
                     near ? fmt::format("; did you mean {}?", *near) : "");
}

} // namespace baton::cluster::start_line
