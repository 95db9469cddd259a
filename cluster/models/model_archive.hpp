// An archive of TorchServe's (a zip as .mar is, or a tar with gzip), or the directory of one: what
// its manifest says. Its files are unpacked by the worker that needs them
// (sdk/python/baton_worker/archive.py).
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
  std::string settings;                // the text of its model-config.yaml; empty: it has none
  std::string requirements;            // its requirementsFile; empty: it has none
  std::string url;                     // where it was fetched from; empty: the store had it
  std::uint64_t digest = 0;            // of what was read, and of the file's name, size and time
  std::vector<std::string> notes;
};

// Errors: model_not_found (there is nothing of that name), bad_config (it is no such archive).
result<model_archive> read_model_archive(const std::filesystem::path& path);
// The bytes of a file. Errors: bad_config.
result<model_archive> read_archive_bytes(std::string_view bytes);
// Whether a file of this name is looked at where all of a store are asked for; its bytes say what
// it is.
bool has_archive_suffix(std::string_view name) noexcept;
// All that are directly in a store: by names, those that begin with a dot, and files without an
// archive's suffix, left out. Directories are all looked at. Errors: io_failed, bad_config (too
// many).
result<std::vector<std::string>> archives_of(const std::filesystem::path& store);

} // namespace baton::cluster
