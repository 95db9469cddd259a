// The manifest of a TorchServe archive: a zip (.mar), a tar with gzip, or an unpacked directory.
// The worker that needs the files unpacks them (sdk/python/baton_worker/archive.py).
// https://github.com/pytorch/serve/blob/master/model-archiver/README.md
#pragma once

#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct model_archive {
  std::filesystem::path path;
  std::string model, version, handler; // of MAR-INF/MANIFEST.json
  std::string settings;                // text of model-config.yaml; empty: none
  std::string requirements;            // requirementsFile; empty: none
  std::string url;                     // where it was fetched from; empty: it was in the store
  std::uint64_t digest = 0;            // of the content read, and of the file's name, size and time
  std::vector<std::string> notes;
};

// Errors: model_not_found (no such file), bad_config (not a model archive).
result<model_archive> read_model_archive(const std::filesystem::path& path);
// `bytes`: the content of an archive file. Errors: bad_config.
result<model_archive> read_archive_bytes(std::string_view bytes);
// Whether a file of this name is considered when all archives of a store are loaded. Its bytes, not
// its name, decide the format.
bool has_archive_suffix(std::string_view name) noexcept;
// Sorted names of all archives directly in a store. Includes all directories; skips names that
// begin with a dot and files without an archive's suffix. Errors: io_failed, bad_config (too many).
result<std::vector<std::string>> archives_of(const std::filesystem::path& store);

} // namespace baton::cluster
