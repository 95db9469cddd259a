// One file over HTTP: four parts of 16 MiB at a time, resumed where an earlier process was cut, and
// checked by size and digest. A server without ranges sends it whole.
#pragma once

#include "cluster/hub/hub_client.hpp"
#include "cluster/hub/part_record.hpp"

#include <filesystem>
#include <string>

namespace baton::cluster {

struct download_target {
  remote_blob from;
  std::string what;   // for people: ORG/REPO/FILE
  std::string sha256; // empty: unknown
  std::string sha1;   // of git; empty: unknown
  std::filesystem::path file;

  std::filesystem::path incomplete() const { return file.string() + ".baton-incomplete"; }
  std::filesystem::path record() const { return file.string() + ".baton-parts"; }
  // Bytes that an earlier download has left.
  std::uint64_t present() const;
};

// Returns when the file is there in full. `before`: bytes of other files in the progress that is
// shown. Errors: those of hub_client; bad_model_file (size or digest differ; nothing is kept),
// io_failed.
result<void> download_file(const download_target& target, const hub_settings& settings,
                           const hub_events& events, download_progress before);

} // namespace baton::cluster
