#include "cluster/models/torchserve/torchserve_properties.hpp"

#include "cluster/config/cpu_launcher.hpp"
#include "cluster/config/readers/config_repository.hpp"
#include "cluster/models/torchserve/torchserve_left_out.hpp"
#include "cluster/models/torchserve/torchserve_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <vector>

namespace baton::cluster {
namespace {

constexpr std::size_t properties_bytes_max = 1u << 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\f";
  const auto begin = std::min(text.find_first_not_of(space), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(space) + 1);
}

using properties = std::map<std::string, std::string, std::less<>>;

std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto line = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Whether the line ends in an unescaped backslash and so continues on the next one.
bool is_continued(std::string_view line) {
  const auto last = line.find_last_not_of('\\');
  const auto slashes = line.size() - (last == line.npos ? 0 : last + 1);
  return slashes % 2 == 1;
}

// The format of java.util.Properties without escapes, except line continuations. No key that is
// read here needs the others. The last of several equal keys counts.
properties read_lines(std::string_view text) {
  properties all;
  while (!text.empty()) {
    std::string line(take_line(text));
    if (line.empty() || line.front() == '#' || line.front() == '!') {
      continue;
    }
    while (is_continued(line)) {
      line.pop_back();
      line += take_line(text);
    }
    const auto mark = std::min(line.find_first_of("=:"), line.size());
    const std::string_view whole(line);
    all.insert_or_assign(std::string(trimmed(whole.substr(0, mark))),
                         std::string(trimmed(whole.substr(std::min(mark + 1, whole.size())))));
  }
  return all;
}

std::optional<std::uint32_t> number_of(std::string_view text, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto* end = text.data() + text.size();
  const auto [at, ec] = std::from_chars(text.data(), end, value);
  return ec == std::errc() && at == end && value <= most ? std::optional(value) : std::nullopt;
}

struct listener_key {
  const char* key;
  std::string torchserve_properties::*to;
  std::uint32_t port, secure_port; // if the address has none
};
constexpr std::array listener_keys{
    listener_key{"inference_address", &torchserve_properties::inference, 80, 443},
    listener_key{"management_address", &torchserve_properties::management, 8081, 8444},
    listener_key{"metrics_address", &torchserve_properties::metrics, 8082, 8445}};

error refused(std::string_view key, const std::string& why) {
  return fail_param(errc::bad_config, key, "config.properties: {} {}", key, why);
}

// Replaces each $$NAME$$ in a value by that environment variable, as TorchServe does.
result<void> resolve_variables(properties& all, const environment_lookup& variable) {
  constexpr std::string_view mark = "$$";
  constexpr std::size_t shown_max = 64;
  for (auto& [key, value] : all) {
    std::string out;
    std::size_t at = 0;
    for (;;) {
      const auto begin = value.find(mark, at);
      const auto end = begin == value.npos ? value.npos : value.find(mark, begin + mark.size());
      if (end == value.npos)
        break;
      const auto name = value.substr(begin + mark.size(), end - begin - mark.size());
      const auto given = variable(name);
      if (!given)
        return refused(key.substr(0, shown_max),
                       fmt::format("names the variable '{}', which the environment does not have",
                                   name.substr(0, shown_max)));
      out.append(value, at, begin - at).append(*given);
      at = end + mark.size();
    }
    value = out + value.substr(at);
  }
  return {};
}

// Parses a boolean as Java does: every other text is false.
bool is_java_true(std::string text) {
  for (auto& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text == "true";
}

// The keys that are read, besides those of torchserve_left_out().
constexpr std::array read_keys{
    "inference_address",  "management_address",       "metrics_address",
    "enable_metrics_api", "grpc_inference_port",      "grpc_management_port",
    "model_store",        "certificate_file",         "private_key_file",
    "job_queue_size",     "default_response_timeout", "default_startup_timeout",
    "number_of_gpu",      "cpu_launcher_enable",
};

// With enable_envvars_config, TS_KEY of the environment takes the place of a key, as in TorchServe.
// Returns the names of these variables.
std::vector<std::string> take_environment(properties& all, const environment_lookup& variable) {
  std::vector<std::string> taken;
  const auto enabled = all.find("enable_envvars_config");
  if (enabled == all.end() || !is_java_true(enabled->second))
    return taken;
  all.erase(enabled);
  const auto take = [&](std::string_view key) {
    auto name = "TS_" + std::string(key);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (auto value = variable(name)) {
      all.insert_or_assign(std::string(key), *std::move(value));
      taken.push_back(std::move(name));
    }
  };
  std::for_each(read_keys.begin(), read_keys.end(), take);
  for (const auto& [key, why] : torchserve_left_out())
    if (key != "enable_envvars_config")
      take(key);
  return taken;
}

// Converts "https://127.0.0.1:8443" to "127.0.0.1:8443".
result<std::string> address_of(const listener_key& which, std::string_view text, bool& is_secure) {
  constexpr std::string_view plain = "http://", secure = "https://";
  const std::string given(text.substr(0, 80));
  is_secure = is_secure || text.starts_with(secure);
  const auto port_otherwise = text.starts_with(secure) ? which.secure_port : which.port;
  for (const auto lead : {plain, secure}) {
    if (text.starts_with(lead)) {
      text.remove_prefix(lead.size());
    }
  }
  text = text.substr(0, text.find('/'));
  const auto colon = text.starts_with('[') ? text.find(':', text.find(']')) : text.find(':');
  const auto host = text.substr(0, colon);
  const bool is_host = !host.empty() && host.find_first_not_of("0123456789abcdefABCDEF.:[]") ==
                                            std::string_view::npos;
  const auto port = colon == text.npos
                        ? std::optional(port_otherwise)
                        : number_of(text.substr(std::min(colon + 1, text.size())), 65535);
  if ((!is_host && host != "localhost") || !port || *port == 0) {
    return refused(which.key, fmt::format("is '{}': an IP address and a port are needed", given));
  }
  return fmt::format("{}:{}", host, *port);
}

result<void> take_addresses(properties& all, torchserve_properties& out) {
  bool is_secure = false;
  for (const auto& which : listener_keys) {
    const auto it = all.find(which.key);
    if (it == all.end()) {
      continue;
    }
    auto address = address_of(which, it->second, is_secure);
    if (!address) {
      return address.error();
    }
    out.*which.to = *std::move(address);
    all.erase(it);
  }
  for (std::size_t i = 0; i < listener_keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      auto& own = out.*listener_keys[i].to;
      if (!own.empty() && own == out.*listener_keys[j].to) {
        out.notes.push_back(fmt::format("{} is left out: here it cannot be that of {}",
                                        listener_keys[i].key, listener_keys[j].key));
        own.clear();
      }
    }
  }
  if (is_secure && out.certificate.empty()) {
    out.notes.emplace_back("https:// needs gateway.tls_certificate and gateway.tls_key");
  }
  return {};
}

result<std::optional<std::uint32_t>> take_number(properties& all, const char* key) {
  const auto it = all.find(key);
  if (it == all.end()) {
    return std::optional<std::uint32_t>();
  }
  const auto value = number_of(it->second, 86'400);
  if (!value || *value == 0) {
    return refused(key, "is no number from 1 to 86400");
  }
  all.erase(it);
  return value;
}

// The gRPC listener, if the file sets a port. TorchServe's default address is the loopback.
result<void> take_grpc(properties& all, const std::string& service, std::string& to) {
  const auto port_key = "grpc_" + service + "_port", address_key = "grpc_" + service + "_address";
  const auto port = all.find(port_key);
  if (port == all.end()) {
    return {};
  }
  const auto port_number = number_of(port->second, 65535);
  if (!port_number || *port_number == 0) {
    return refused(port_key.c_str(), "is no port from 1 to 65535");
  }
  std::string host = "127.0.0.1";
  if (const auto given = all.find(address_key); given != all.end()) {
    host = given->second;
    if (host.empty() || host.find_first_not_of("0123456789abcdefABCDEF.:[]") != host.npos) {
      return refused(address_key.c_str(), "is no IP address");
    }
    all.erase(given);
  }
  const bool is_bare_v6 = host.find(':') != host.npos && host.front() != '[';
  to = is_bare_v6 ? fmt::format("[{}]:{}", host, *port_number)
                  : fmt::format("{}:{}", host, *port_number);
  all.erase(port_key);
  return {};
}

// Takes a path that can be written to nodes.toml.
result<std::string> take_path(properties& all, const char* key) {
  const auto it = all.find(key);
  if (it == all.end()) {
    return std::string();
  }
  auto path = std::move(it->second);
  all.erase(it);
  const bool is_text = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return c >= 0x20 && c < 0x7F; // accepted by TOML unescaped, except for what toml_string escapes
  });
  return is_text ? result<std::string>(path) : refused(key, "is no path in ASCII");
}

// The items of a comma-separated list.
std::vector<std::string_view> comma_items(std::string_view text) {
  std::vector<std::string_view> items;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    if (const auto item = trimmed(text.substr(begin, end - begin)); !item.empty())
      items.push_back(item);
    begin = end + 1;
  }
  return items;
}

// Removes escapes as java.util.Properties does; regular expressions may contain them.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    i += text[i] == '\\' && i + 1 < text.size() ? 1 : 0;
    plain += text[i];
  }
  return plain;
}

// Where archives may come from, and whether their requirements are installed. Errors: bad_config.
result<void> take_archives(properties& all, torchserve_properties& out) {
  const auto urls = take_path(all, "allowed_urls");
  if (!urls) {
    return urls.error();
  }
  if (!urls->empty()) {
    const auto plain = without_escapes(*urls);
    const auto parsed = comma_items(plain);
    out.allowed_urls.emplace(parsed.begin(), parsed.end());
  }
  if (const auto it = all.find("install_py_dep_per_model"); it != all.end()) {
    out.installs_requirements = it->second == "true";
    all.erase(it);
  }
  return {};
}

// Errors: bad_config.
result<void> take_store(properties& all, torchserve_properties& out) {
  auto store = take_path(all, "model_store");
  if (!store) {
    return store.error();
  }
  out.model_store = *std::move(store);
  if (out.model_store.empty()) {
    return {};
  }
  const auto workers = take_number(all, "default_workers_per_model");
  auto models = take_path(all, "load_models");
  if (!workers || !models) {
    return workers ? models.error() : workers.error();
  }
  out.workers_per_model = *workers;
  if (const auto it = all.find("models"); it != all.end()) {
    auto archives = parse_torchserve_models(it->second, out.notes);
    if (!archives)
      return fail(errc::bad_config, "config.properties: {}", archives.error().message);
    out.models = *std::move(archives);
    all.erase(it);
  }
  for (const auto item : comma_items(*models)) {
    if (item == "none" || item == "N/A") {
      continue;
    }
    if (item == "ALL" || item == "all") {
      out.load_models.emplace_back("all");
    } else if (is_store_load(item)) {
      out.load_models.emplace_back(item);
    } else {
      out.notes.push_back(fmt::format("load_models: '{}' is left out: it is neither an archive of "
                                      "the store nor a URL",
                                      item.substr(0, 80)));
    }
  }
  return take_archives(all, out);
}

// How many GPUs workers use, and whether each is pinned to its own cores. Errors: bad_config.
result<void> take_devices(properties& all, torchserve_properties& out) {
  if (const auto it = all.find("number_of_gpu"); it != all.end()) {
    if (!(out.number_of_gpu = number_of(it->second, device_ids_max)))
      return refused("number_of_gpu", fmt::format("is no number from 0 to {}", device_ids_max));
    all.erase(it);
  }
  const auto is_enabled = all.find("cpu_launcher_enable");
  out.cpu_launcher_enable = is_enabled != all.end() && is_java_true(is_enabled->second);
  if (is_enabled != all.end())
    all.erase(is_enabled);
  const auto args = all.find("cpu_launcher_args");
  if (args == all.end() || !out.cpu_launcher_enable)
    return {};
  auto parsed = parse_launcher_args(args->second);
  if (!parsed)
    return refused("cpu_launcher_args", fmt::format("has {}", parsed.error().message));
  for (const auto& note : parsed->notes)
    out.notes.push_back(fmt::format("cpu_launcher_args: {} is left out{}",
                                    note.substr(0, note.find(':')), note.substr(note.find(':'))));
  out.cpu_launcher_args = std::move(parsed->taken);
  all.erase(args);
  return {};
}

result<void> take_certificate(properties& all, torchserve_properties& out) {
  auto certificate = take_path(all, "certificate_file");
  auto key = take_path(all, "private_key_file");
  if (!certificate || !key) {
    return certificate ? key.error() : certificate.error();
  }
  if (certificate->empty() != key->empty()) {
    return refused("certificate_file", "and private_key_file belong together");
  }
  out.certificate = *std::move(certificate);
  out.key = *std::move(key);
  return {};
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && key.size() <= 64 &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

} // namespace

std::optional<std::string> variable_of_process(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

result<torchserve_properties> parse_torchserve_properties(std::string_view text,
                                                          const environment_lookup& variable) {
  if (text.size() > properties_bytes_max) {
    return fail(errc::bad_config, "config.properties has more than {} bytes", properties_bytes_max);
  }
  auto all = read_lines(text);
  torchserve_properties out;
  out.variables = take_environment(all, variable);
  if (auto ok = resolve_variables(all, variable); !ok) {
    return ok.error();
  }
  if (auto ok = take_certificate(all, out); !ok) {
    return ok.error();
  }
  if (auto ok = take_addresses(all, out); !ok) {
    return ok.error();
  }
  if (auto ok = take_grpc(all, "inference", out.grpc_inference); !ok) {
    return ok.error();
  }
  if (auto ok = take_grpc(all, "management", out.grpc_management); !ok) {
    return ok.error();
  }
  if (const auto it = all.find("enable_metrics_api"); it != all.end()) {
    out.metrics = it->second == "false" ? "" : out.metrics;
    all.erase(it);
  }
  if (const auto it = all.find("disable_token_authorization"); it != all.end())
    out.needs_no_token = it->second == "true";
  if (auto ok = take_store(all, out); !ok) {
    return ok.error();
  }
  if (auto ok = take_devices(all, out); !ok)
    return ok.error();
  const auto startup = take_number(all, "default_startup_timeout");
  if (!startup) {
    return startup.error();
  }
  out.startup_timeout = *startup;
  const auto queue = take_number(all, "job_queue_size");
  const auto timeout = take_number(all, "default_response_timeout");
  if (!queue || !timeout) {
    return queue ? timeout.error() : queue.error();
  }
  out.job_queue_size = *queue;
  out.response_timeout = *timeout;
  for (const auto& [key, value] : all) {
    const auto why = torchserve_left_out().find(key);
    out.notes.push_back(
        why == torchserve_left_out().end()
            ? fmt::format("{} IS NOT KNOWN: config.properties has no such key",
                          is_plain_key(key) ? key : "a key of config.properties that is no name")
            : fmt::format("{} is left out: {}", key, why->second));
  }
  return out;
}

} // namespace baton::cluster
