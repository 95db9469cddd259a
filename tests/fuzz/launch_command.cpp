// The command that starts another server, one argument a line, or a compose file that contains it.
// The result is an error, or a valid configuration of ours that adds nothing to the command. The
// same input also stands for the files that it names: those of variables, and of vLLM's options.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/import/launch_files.hpp"
#include "cluster/import/launch_import.hpp"
#include "cluster/models/torchserve/torchserve_properties.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

#include <sstream>

using namespace baton;

namespace {

void import_of(const cluster::launch_line& line) {
  cluster::import_wishes wishes;
  wishes.model = "m.gguf";
  wishes.name = "m";
  wishes.machine = {static_cast<std::uint32_t>(line.args.size() % 4), 1ull << 35};
  const auto made = cluster::import_launch(line, wishes);
  if (!made) {
    ENSURE(!made.error().message.empty(), "an error without words");
    return;
  }
  if (const auto config = cluster::parse_config(made->toml, "nodes.toml"))
    ENSURE(config->models.size() == 1 && config->model.path == "m.gguf" &&
               config->nodes.size() == 1 && config->gateway.api_keys.empty(),
           "an option became another setting");
}

void stores_of(const cluster::launch_line& line) {
  if (const auto read = cluster::read_torchserve_line(line))
    if (const auto properties = cluster::parse_torchserve_properties(read->properties))
      ENSURE(properties->certificate.empty(), "an option became another property");
  if (const auto read = cluster::read_triton_line(line))
    if (const auto config = cluster::parse_config(read->tables, "nodes.toml"))
      ENSURE(config->models.empty() && config->repository && config->gateway.api_keys.empty(),
             "an option became another setting");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  std::istringstream in{text};
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word);)
    words.push_back(word);
  const auto variable = [](const std::string& name) {
    return name.size() % 2 == 0 ? std::optional<std::string>(name) : std::nullopt;
  };
  for (const auto& line :
       {cluster::read_launch_line(words), cluster::read_compose(text, "", "/srv", variable)}) {
    if (!line) {
      ENSURE(!line.error().message.empty(), "an error without words");
      continue;
    }
    if (line->program == cluster::launcher::torchserve ||
        line->program == cluster::launcher::triton)
      stores_of(*line);
    else
      import_of(*line);
  }
  for (const auto kind : {cluster::env_file_kind::plain, cluster::env_file_kind::compose})
    if (const auto all = cluster::read_env_file(text, kind, variable); !all)
      ENSURE(!all.error().message.empty(), "an error without words");
  if (auto options = cluster::config_args(cluster::launcher::vllm, text)) {
    cluster::launch_line line;
    line.args = *std::move(options);
    import_of(line);
  }
  return 0;
}
