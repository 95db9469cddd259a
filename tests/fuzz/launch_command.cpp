// The command that starts another server, a line for each word: whatever it says, what is made of
// it is a configuration of ours that says no more than it should, or is refused by one.
#include "cluster/config.hpp"
#include "cluster/launch_import.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

#include <sstream>

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in{std::string(fuzz::text_of(data, size))};
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word);)
    words.push_back(word);
  const auto made = cluster::import_launch(words, "m.gguf", "m");
  if (!made) {
    ENSURE(!made.error().message.empty(), "an error without words");
    return 0;
  }
  if (const auto config = cluster::parse_config(made->toml, "nodes.toml"))
    ENSURE(config->models.size() == 1 && config->model.path == "m.gguf" &&
               config->nodes.size() == 1 && config->gateway.api_keys.empty(),
           "an option became another setting");
  return 0;
}
