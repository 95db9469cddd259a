// A TorchServe archive: its bytes become a valid worker model within limits, or are refused with a
// reason.
#include "cluster/config/readers/config_workers.hpp"
#include "cluster/models/store_models.hpp"
#include "schema/ensure.hpp"
#include "schema/limits.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto archive = cluster::read_archive_bytes(fuzz::text_of(data, size));
  if (!archive) {
    ENSURE(!archive.error().message.empty(), "an error without words");
    return 0;
  }
  ENSURE(cluster::is_name(archive->model) && cluster::is_name(archive->version),
         "an archive without a name");
  archive->path = "/store/some.mar";
  const auto made = cluster::model_of_archive(*archive, "", {}, cluster::store_config(), 1);
  if (!made)
    return 0;
  ENSURE(made->version.table.size() <= limits::model_config_bytes_max, "a table is too large");
  const auto read = cluster::parse_worker(made->version.table, "again");
  ENSURE(read && read->command.at(2) == "baton_worker.torchserve", "a manifest became a command");
  return 0;
}
