// Translates options to keys.
#include "cluster/import/launch_translation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace baton::cluster::start_line {
namespace {

std::optional<double> real_of(std::string_view text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  const bool is_one = read.ec == std::errc() && read.ptr == end && std::isfinite(value);
  return is_one ? std::optional(value) : std::nullopt;
}

std::vector<std::string> parts_of(const std::string& value) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= value.size();) {
    const auto end = std::min(value.find(',', begin), value.size());
    all.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

} // namespace

std::optional<error> translation::read() {
  out_.notes = line_.notes;
  gpus_ = line_.gpus;
  has_key_ = from_.needs_key;
  auto parsed = parse_args(from_, line_.args);
  if (!parsed)
    return parsed.error();
  read_variables();
  for (const auto& one : parsed->options)
    if (!first_)
      take(one);
  for (const auto& arg : parsed->others)
    if (model_.empty() && line_.program == launcher::vllm)
      model_ = arg;
    else
      refuse(arg, "is one word too many: the model is " + model_);
  if (served_names_.empty() && !from_.model_name.empty())
    served_names_.emplace_back(from_.model_name);
  return first_;
}

// Options set by the environment; those of the command override them.
void translation::read_variables() {
  auto all = line_.variables;
  for (const auto& [name, value] : line_.defaults)
    all.try_emplace(name, value);
  for (const auto& [name, value] : all)
    if (!first_)
      read_variable(name, value);
}

void translation::read_variable(const std::string& name, const std::string& value) {
  if (name == "CUDA_VISIBLE_DEVICES" || name == "NVIDIA_VISIBLE_DEVICES") {
    gpus_ = value == "all" ? value : "device=" + value;
    return;
  }
  if (name == "VLLM_API_KEY" || name == "LLAMA_API_KEY")
    return take({find_option(from_, "--api-key"), name, {value}});
  auto option_name = name;
  if (option_name.starts_with(from_.variables))
    option_name.erase(0, from_.variables.size());
  for (auto& c : option_name)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto* o = from_.variables == "-" || !name.starts_with(from_.variables)
                      ? nullptr
                      : find_option(from_, "--" + option_name);
  if (!o || line_.program == launcher::vllm)
    return note(fmt::format("the variable {} is left out: {}", name,
                            name.starts_with("HF_") || name.starts_with("HUGGING")
                                ? why::not_downloaded
                                : "nothing here reads it"));
  const bool is_off = value == "false" || value == "0" || value == "off";
  if (is_bare(o->is) && is_off)
    return;
  take({o, name, is_bare(o->is) ? std::vector<std::string>() : std::vector{value}});
}

void translation::take(const parsed_option& parsed) {
  if (!parsed.what)
    return note(left_out(from_, parsed));
  const auto& o = *parsed.what;
  switch (o.is) {
  case kind::name:
    return take_names(parsed.name, parsed.values);
  case kind::devices:
    gpus_ = fmt::format("device={}", fmt::join(parsed.values, ","));
    if (gpus_named(gpus_).empty())
      refuse(parsed.name, "needs numbers of devices, as in 0,1");
    return;
  case kind::without:
  case kind::without_a_value:
  case kind::without_values:
  case kind::several:
    return note(left_out(from_, parsed));
  default:
    return take_value(o, parsed.name, parsed.values.empty() ? "" : parsed.values.front());
  }
}

void translation::take_value(const option& o, const std::string& name, const std::string& value) {
  switch (o.is) {
  case kind::number:
  case kind::tokens:
  case kind::unless:
  case kind::gib:
    return take_number(o, name, value);
  case kind::real:
    return take_real(o, name, value);
  case kind::choice:
    return take_choice(o, name, value);
  case kind::dtype:
    return take_dtype(o, name, value);
  case kind::text:
    return set(o.to, toml_string(line_.outside(value)));
  case kind::on:
  case kind::off:
    return set(o.to, o.is == kind::on ? "true" : "false");
  case kind::no_key:
    has_key_ = false;
    return;
  case kind::model:
    model_ = value;
    return;
  case kind::directory:
    directory_ = value;
    return;
  case kind::loaded:
    return value == "0" ? set(o.to, fmt::format("{}", o.most)) : take_number(o, name, value);
  case kind::sleep: // -1: never
    sleeps_ = !value.starts_with('-');
    return sleeps_ ? take_number(o, name, value) : void(settings_.erase(std::string(o.to)));
  case kind::names:
    return take_names(name, parts_of(value));
  case kind::host:
    host_ = value;
    return;
  case kind::port:
  case kind::metrics_port:
    return take_port(o, name, value);
  case kind::key:
    has_key_ = true;
    return note("THE API KEY IS NOT CARRIED OVER: keys are kept as hashes. `cluster keygen --api "
                "NAME keys.toml` makes one; then gateway.api_keys = \"keys.toml\"");
  case kind::collector:
    return take_collector(o, name, value);
  case kind::speculative:
    return take_speculative(name, value);
  case kind::sampling:
    return take_sampling(name, value);
  case kind::gpu_layers: // 0: llama.cpp uses no GPU
    if (value != "0" && gpus_.empty())
      gpus_ = "1";
    return;
  case kind::stages:
    if (value == "row" || value == "tensor")
      note(fmt::format("{} {} is left out: model.tensor_parallel_size says how many devices share "
                       "a layer",
                       name, value));
    return;
  default:
    return;
  }
}

void translation::take_names(const std::string& name, std::vector<std::string> values) {
  if (values.empty() || name_of_model(values.front()).empty())
    return refuse(name, fmt::format("is '{}': a name is needed", fmt::join(values, " ")));
  served_names_ = std::move(values); // the last option replaces earlier ones
}

void translation::take_port(const option& o, const std::string& name, const std::string& value) {
  std::uint16_t port = 0;
  const auto* end = value.data() + value.size();
  if (std::from_chars(value.data(), end, port).ptr != end || port == 0)
    return refuse(name, fmt::format("is '{}': a port is needed", value));
  if (o.is == kind::port)
    port_ = value;
  else
    set("gateway.admin", toml_string("127.0.0.1:" + value));
}

void translation::take_collector(const option& o, const std::string& name,
                                 const std::string& value) {
  auto at = value;
  if (const auto scheme = at.find("://"); scheme == at.npos)
    at = "http://" + at;
  else if (at.substr(0, scheme) == "grpc")
    at = "http" + at.substr(scheme);
  if (!at.starts_with("http://"))
    return note(fmt::format("{} is left out: spans are sent over http:// alone", name));
  if (at.ends_with("/"))
    at.pop_back();
  if (at.ends_with(":4317")) {
    at.replace(at.size() - 4, 4, "4318");
    note(fmt::format("{} {}: spans are sent over HTTP, whose port is 4318, not over gRPC", name,
                     value));
  }
  set(o.to, toml_string(at));
}

void translation::take_number(const option& o, const std::string& name, const std::string& value) {
  auto digits = std::string_view(value);
  if (o.is == kind::unless && (value == "0" || value.starts_with('-')))
    return;
  std::uint64_t unit = 1;
  constexpr std::pair<char, std::uint64_t> units[] = {
      {'k', 1'000}, {'K', 1 << 10}, {'m', 1'000'000}, {'M', 1 << 20}};
  if (o.is == kind::tokens && !digits.empty())
    for (const auto& [letter, times] : units)
      if (digits.back() == letter) {
        unit = times;
        digits.remove_suffix(1);
        break;
      }
  const auto number = real_of(digits);
  if (!number || !(*number >= 0 && *number < 1e15))
    return refuse(name, fmt::format("is '{}': a number is needed", value));
  const auto all = static_cast<std::uint64_t>(*number * static_cast<double>(unit));
  const auto within = std::clamp(all, o.least, o.most);
  if (within != all)
    note(fmt::format("{} {}: {} is {} from {} to {}", name, value, o.to, within, o.least, o.most));
  if (o.is != kind::gib)
    return set(o.to, fmt::format("{}", within));
  // A shortage of swap space would only show in the middle of answers.
  const auto& disk = wishes_.machine.disk_bytes;
  if (disk && within > (*disk >> 30) / 2)
    return note(fmt::format("{} {} IS LEFT OUT: the disk of the run directory has {} GiB free. "
                            "model.swap_space = \"{}GiB\" with a cluster.run_dir that has room "
                            "brings it back; without it what has no room in the KV cache is "
                            "computed again",
                            name, value, *disk >> 30, within));
  set(o.to, fmt::format("\"{}GiB\"", within));
}

void translation::take_real(const option& o, const std::string& name, const std::string& value) {
  const auto number = real_of(value);
  if (!number)
    return refuse(name, fmt::format("is '{}': a number is needed", value));
  set(o.to, fmt::format("{:.6f}", *number));
}

void translation::take_choice(const option& o, const std::string& name, const std::string& value) {
  std::vector<std::string_view> known;
  for (const auto choice : split(o.choices)) {
    const auto equals = std::min(choice.find('='), choice.size());
    const auto theirs = choice.substr(0, equals);
    known.push_back(theirs);
    if (theirs != value)
      continue;
    const auto here = equals == choice.size() ? theirs : choice.substr(equals + 1);
    if (here.empty())
      return note(fmt::format("{} {} is left out: there is no such {} here", name, value, o.to));
    if (here == "q8_0" && value != "q8_0")
      note(fmt::format("{} {}: KV of 8 bits is q8_0 here, blocks of 8-bit integers", name, value));
    return set(o.to, toml_string(here));
  }
  refuse(name, fmt::format("is '{}': one of {} is needed", value, fmt::join(known, ", ")));
}

// Only device engines support a weight type of their own.
void translation::take_dtype(const option& o, const std::string& name, const std::string& value) {
  take_choice(o, name, value);
  const auto it = settings_.find(std::string(o.to));
  if (it == settings_.end() || it->second == "\"auto\"" || wishes_.machine.gpus > 0)
    return;
  settings_.erase(it);
  note(fmt::format("{} {} is left out: this machine's engine computes with the types of the "
                   "model's file",
                   name, value));
}

// {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}; JSON is valid YAML.
void translation::take_speculative(const std::string& name, const std::string& value) {
  try { // the boundary to yaml-cpp, which throws
    const auto root = YAML::Load(value);
    if (!root.IsMap())
      return refuse(name, "is no JSON object");
    if (const auto method = root["method"]; !method || method.as<std::string>("") != "ngram")
      return note(fmt::format("{} is left out: {}", name, why::no_draft));
    constexpr option numbers[] = {
        {"num_speculative_tokens", kind::number, "model.num_speculative_tokens", 0, 16},
        {"prompt_lookup_max", kind::number, "model.prompt_lookup_max", 1, 16},
        {"prompt_lookup_min", kind::number, "model.prompt_lookup_min", 1, 16},
    };
    for (const auto& o : numbers)
      if (const auto node = root[std::string(o.names)])
        take_number(o, std::string(o.names), node.IsScalar() ? node.Scalar() : "no number");
  } catch (const YAML::Exception& e) {
    refuse(name, fmt::format("is no JSON: {}", e.msg));
  }
}

// {"temperature": 0.5, "max_new_tokens": 100}
void translation::take_sampling(const std::string& name, const std::string& value) {
  constexpr option fields[] = {
      {"temperature", kind::real, "sampling.temperature"},
      {"top_p", kind::real, "sampling.top_p"},
      {"min_p", kind::real, "sampling.min_p"},
      {"repetition_penalty", kind::real, "sampling.repetition_penalty"},
      {"top_k", kind::unless, "sampling.top_k", 0, 1 << 20},
      {"max_new_tokens", kind::number, "sampling.max_tokens", 1, 1 << 24},
      {"max_tokens", kind::number, "sampling.max_tokens", 1, 1 << 24},
  };
  try { // the boundary to yaml-cpp, which throws
    const auto root = YAML::Load(value);
    if (!root.IsMap())
      return refuse(name, "is no JSON object");
    for (const auto& entry : root) {
      const auto key = entry.first.Scalar();
      const auto* o = std::ranges::find(fields, std::string_view(key), &option::names);
      if (o == std::end(fields))
        note(fmt::format("{} of {} is left out: [model.sampling] has no such default",
                         key.substr(0, 64), name));
      else
        take_value(*o, key, entry.second.IsScalar() ? entry.second.Scalar() : "no number");
    }
  } catch (const YAML::Exception& e) {
    refuse(name, fmt::format("is no JSON: {}", e.msg));
  }
}

} // namespace baton::cluster::start_line
