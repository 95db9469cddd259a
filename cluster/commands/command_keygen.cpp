// `cluster keygen`: makes the key that identifies this machine, or an API key.
#include "cluster/bus/bus_zmq.hpp"
#include "cluster/commands/commands.hpp"
#include "cluster/config/config.hpp"
#include "cluster/config/readers/api_key_file.hpp"

#include <cstdio>

namespace baton::cluster {
namespace {

int machine_key(const std::filesystem::path& file) {
  const auto path = file.empty() ? default_key_file() : file;
  auto pair = read_key_file(path);
  if (!pair && pair.error().code == errc::not_found) {
    auto made = make_key_pair();
    auto written = write_key_file(path, made);
    pair = written ? result<key_pair>(made) : written.error();
  }
  if (!pair)
    return refuse_command(pair.error());
  std::printf(
      "# %s; for nodes.toml, in the [[nodes]] table of this machine:\npublic_key = \"%s\"\n",
      path.c_str(), pair->public_key.c_str());
  return 0;
}

// Only the key goes to stdout, so that it can be piped to its destination; it is stored nowhere.
int api_key(const keygen_options& options) {
  if (!is_name(options.api))
    return refuse_command(
        fail(errc::bad_config, "--api '{}': a name is 1 to 64 of [A-Za-z0-9._-]", options.api));
  const auto role = options.admin ? gateway::key_role::admin : gateway::key_role::user;
  const auto key = make_api_key();
  if (options.file.empty()) {
    std::fprintf(stderr, "# for the file of gateway.api_keys:\n%s\n",
                 api_key_table(options.api, role, key).c_str());
  } else if (auto ok = add_api_key(options.file, options.api, role, key); !ok) {
    return refuse_command(ok.error());
  }
  std::fprintf(stderr, "# the key of %s; it is shown this once:\n", options.api.c_str());
  std::puts(key.c_str());
  return 0;
}

} // namespace

int command_keygen(const keygen_options& options) {
  if (!options.api.empty())
    return api_key(options);
  if (options.admin)
    return refuse_command(
        fail(errc::bad_config, "--admin is for an API key: give --api NAME as well"));
  return machine_key(options.file);
}

} // namespace baton::cluster
