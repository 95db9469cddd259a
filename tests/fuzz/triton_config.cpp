// A config.pbtxt, then after a zero byte the model.json of its newest version. The result is a
// valid configuration of ours with one LLM, or an error. A config.pbtxt that is completed from an
// ONNX file (a seed of the target onnx_file) stays one.
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/readers/config_workers.hpp"
#include "cluster/formats/pbtxt.hpp"
#include "cluster/models/triton/triton_completion.hpp"
#include "cluster/models/triton/triton_import.hpp"
#include "schema/ensure.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

namespace {

void check_completion(cluster::triton_model model) {
  const bool was_read = cluster::parse_pbtxt(model.config).has_value();
  const auto completed = cluster::complete(model, BATON_SOURCE_DIR "/tests/fuzz/seeds/onnx_file");
  if (!completed) {
    ENSURE(!completed.error().message.empty(), "an error without words");
    return;
  }
  ENSURE(cluster::parse_pbtxt(model.config).has_value() == was_read,
         "what was added cannot be read");
  const auto made = cluster::import_triton_worker(model);
  if (!made)
    return;
  const auto worker = cluster::parse_worker(made->toml, "config.pbtxt");
  ENSURE(worker, "a worker that cannot be read: {}", worker.error().message);
  ENSURE(worker->name == "one", "a field became another setting");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const auto end = std::min(text.find('\0'), text.size());
  const cluster::triton_model one{
      "models/one", text.substr(0, end), {1}, text.substr(std::min(end + 1, text.size()))};
  check_completion(one);
  const auto made = cluster::import_triton({&one, 1}, "m.gguf", "m");
  if (!made) {
    ENSURE(!made.error().message.empty(), "an error without words");
    return 0;
  }
  if (const auto config = cluster::parse_config(made->toml, "nodes.toml"))
    ENSURE(config->models.size() == 1 && config->model.path == "m.gguf" &&
               config->workers.size() <= 1 && config->gateway.api_keys.empty(),
           "a field became another setting");
  return 0;
}
