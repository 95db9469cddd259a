// `torchserve`. Options: TorchServe's ts/arg_parser.py.
#include "cluster/import/launch_args.hpp"
#include "cluster/import/launch_import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace baton::cluster {
namespace start_line {
namespace {

constexpr option torchserve_options[] = {
    {"--ts-config --ts-config-file", kind::text, "config"},
    {"--model-store", kind::text, "model_store"},
    {"--models", kind::several, "load_models"},
    {"--start", kind::on, "start"},
    {"--stop", kind::off, "stop"},
    {"--version -v", kind::off, "version"},
    {"--foreground", kind::without, "`cluster up` runs in the foreground"},
    {"--no-config-snapshots --ncs", kind::without, "no snapshots are written"},
    {"--workflow-store", kind::without_a_value, "THERE ARE NO WORKFLOWS"},
    {"--log-config --cpp-log-config", kind::without_a_value, why::logs},
    {"--plugins-path --ppath", kind::without_a_value, why::no_hooks},
    {"--disable-token-auth --dt", kind::on, "disable_token_authorization"},
    {"--enable-model-api", kind::without, "models always come and go by the management API"},
};

const dialect torchserve{.name = "TorchServe",
                         .host = "127.0.0.1",
                         .port = "8080",
                         .variables = "-",
                         .accepts_prefixes = true,
                         .options = torchserve_options};

// A line of config.properties; control characters are replaced, so it stays one line.
std::string property(std::string_view key, std::string value) {
  std::ranges::replace_if(
      value, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return fmt::format("{}={}\n", key, value);
}

} // namespace
} // namespace start_line

result<torchserve_line> read_torchserve_line(const launch_line& line) {
  torchserve_line out;
  out.notes = line.notes;
  auto args = start_line::parse_args(start_line::torchserve, line.args);
  if (!args)
    return args.error();
  if (!args->others.empty())
    return fail(errc::bad_config, "'{}' belongs to no option of torchserve", args->others.front());
  for (const auto& one : args->options) {
    if (one.what && one.what->is == start_line::kind::off)
      return fail(errc::bad_config, "{} starts no server", one.name);
    if (!one.what || one.what->is == start_line::kind::without ||
        one.what->is == start_line::kind::without_a_value)
      out.notes.push_back(start_line::left_out(start_line::torchserve, one));
    else if (one.what->to == "disable_token_authorization")
      out.properties += start_line::property("disable_token_authorization", "true");
    else if (one.what->to == "config")
      out.file = line.outside(one.values.front());
    else if (one.what->to == "model_store")
      out.properties += start_line::property("model_store", line.outside(one.values.front()));
    else if (one.what->to == "load_models")
      out.properties +=
          start_line::property("load_models", fmt::format("{}", fmt::join(one.values, ",")));
  }
  // TS_CONFIG_FILE overrides the option, as TorchServe's documentation says.
  if (const auto it = line.variables.find("TS_CONFIG_FILE"); it != line.variables.end())
    out.file = line.outside(it->second);
  start_line::note_variables(line, "TS_CONFIG_FILE", out.notes);
  // The image's own file, unless something is mounted over it (docker/config.properties).
  const std::string of_image = "/home/model-server/config.properties";
  if (out.file.empty() && line.image.find("torchserve") != line.image.npos)
    out.file = line.outside(of_image);
  if (out.file == of_image) {
    out.file.clear();
    out.properties = "inference_address=http://0.0.0.0:8080\nmanagement_address=http://0.0.0.0:8081"
                     "\nmetrics_address=http://0.0.0.0:8082\njob_queue_size=1000\n"
                     "model_store=/home/model-server/model-store\n" +
                     out.properties;
  }
  return out;
}

} // namespace baton::cluster
