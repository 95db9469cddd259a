#include "cluster/config/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace baton::cluster {

std::string_view name_of(parallel_type type) noexcept {
  switch (type) {
  case parallel_type::pp:
    return "pp";
  case parallel_type::tp:
    return "tp";
  case parallel_type::pptp:
    return "pptp";
  case parallel_type::custom:
    return "custom";
  case parallel_type::none:
    break;
  }
  return "";
}

std::string_view name_of(device_kind kind) noexcept {
  switch (kind) {
  case device_kind::cpu:
    return "cpu";
  case device_kind::gpu:
    return "gpu";
  case device_kind::own:
    return "own";
  case device_kind::automatic:
    break;
  }
  return "auto";
}

bool is_name(std::string_view text) noexcept {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.size() <= 64 && text != "." && text != ".." &&
         text.find_first_not_of(allowed) == std::string_view::npos;
}

bool cluster_config::has_node(std::string_view node) const noexcept {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const node_config& n) { return n.name == node; });
}

namespace {

constexpr std::uint32_t cores_max = 4096;

// A device of an engine in a library; nothing if the text names none.
std::optional<device> parse_foreign(std::string_view text) {
  const auto is_number = [](std::string_view digits) {
    return !digits.empty() && digits.size() <= 3 &&
           digits.find_first_not_of("0123456789") == std::string_view::npos;
  };
  constexpr std::string_view cuda = "cuda:";
  const std::string whole(text);
  if (text == "cpu-torch" || (text.starts_with(cuda) && is_number(text.substr(cuda.size()))))
    return device{whole, {}, "torch", whole};
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || !is_name(text.substr(0, slash)) ||
      slash + 1 == text.size() || text.find_first_of(" \t\n") != std::string_view::npos)
    return std::nullopt;
  return device{whole, {}, whole.substr(0, slash), whole.substr(slash + 1)};
}

} // namespace

result<device> parse_device(std::string_view text) {
  if (auto foreign = parse_foreign(text))
    return *std::move(foreign);
  auto colon = text.find(':');
  device d{std::string(text.substr(0, colon)), {}};
  if (d.kind != "cpu")
    return fail(errc::bad_config,
                "device '{}': write cpu, cpu:N or cpu:N-M for cores, cuda:N for a GPU, "
                "ENGINE/DEVICE for another engine (docs/develop/engines.md)",
                text);
  if (colon == std::string_view::npos)
    return d;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  const auto* end = text.data() + text.size();
  const auto* begin = text.data() + colon + 1;
  auto read = std::from_chars(begin, end, first);
  last = first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
    read = std::from_chars(read.ptr + 1, end, last);
  if (read.ec != std::errc() || read.ptr != end || last < first || last >= cores_max)
    return fail(errc::bad_config,
                "device '{}': write cpu:N for a core, cpu:N-M for several, cpu for a share of all",
                text);
  for (auto core = first; core <= last; ++core)
    d.cores.push_back(core);
  return d;
}

std::filesystem::path default_run_dir(std::string_view name) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime)
    return std::filesystem::path(runtime) / "baton" / name;
  return std::filesystem::path(fmt::format("/tmp/baton-{}", getuid())) / name;
}

} // namespace baton::cluster
