// `cluster keygen`: the key by which other machines know this one.
#include "cluster/bus_zmq.hpp"
#include "cluster/commands.hpp"

#include <cstdio>

namespace baton::cluster {

int command_keygen(const std::filesystem::path& file) {
  const auto path = file.empty() ? default_key_file() : file;
  auto pair = read_key_file(path);
  if (!pair && pair.error().code == errc::not_found) {
    auto made = make_key_pair();
    auto written = write_key_file(path, made);
    pair = written ? result<key_pair>(made) : written.error();
  }
  if (!pair) {
    std::fprintf(stderr, "error: %s\n", pair.error().message.c_str());
    return 1;
  }
  std::printf(
      "# %s; for nodes.toml, in the [[nodes]] table of this machine:\npublic_key = \"%s\"\n",
      path.c_str(), pair->public_key.c_str());
  return 0;
}

} // namespace baton::cluster
