// Questions to a hub with Hugging Face's API: the commit of a revision, its files, a file's blob.
// Failures that may pass are tried again within a bound. Errors of all methods: unauthorized,
// forbidden (gated, or private), not_found, rate_limit_exceeded, io_failed (no answer, or none that
// is understood), cancelled.
#pragma once

#include "cluster/hub/file_choice.hpp"
#include "cluster/hub/http_transfers.hpp"
#include "cluster/hub/hub_settings.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace baton::cluster {

struct download_progress {
  std::uint64_t bytes = 0, bytes_all = 0; // of all files together
  std::string file;
  bool is_checking = false; // reads the file again, for its digest
};

// Each may be called often, from the thread of the download. All are set.
struct hub_events {
  std::function<void(const std::string&)> note; // a line for people
  std::function<void(const download_progress&)> progress;
  std::function<bool(std::chrono::milliseconds)> pause; // waits; false: the user wants an end
};

struct remote_blob {
  std::string url;
  std::string token; // for its host alone
  std::string etag;  // the blob's name in the cache
  std::uint64_t bytes = 0;
};

// An answer that is no success, in words. `what`: the repository or URL. `body`: its beginning.
error hub_error(const std::string& what, const transfer_end& end, const hub_settings& settings);

class hub_client {
public:
  // Both outlive the object.
  hub_client(const hub_settings& settings, const hub_events& events)
      : settings_(settings), events_(events) {}

  // The commit of a branch, tag or commit: 40 hex digits.
  result<std::string> commit_of(const std::string& repository, const std::string& revision) const;
  // All files of a commit. Names that could leave a directory are refused.
  result<std::vector<hub_file>> files(const std::string& repository,
                                      const std::string& commit) const;
  // Where the bytes of a file are.
  result<remote_blob> blob(const std::string& repository, const std::string& commit,
                           const hub_file& file) const;
  // The same of a URL outside of the hub; no token is sent there.
  result<remote_blob> blob_at(const std::string& url) const;

private:
  struct answer {
    http_response response;
    std::string body;
  };
  result<answer> ask(http_request request, const std::string& what) const;

  const hub_settings& settings_;
  const hub_events& events_;
};

} // namespace baton::cluster
