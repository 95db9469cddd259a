// Reads archives that take long: those at a URL are first fetched into the store, and a gzip
// archive must be read in full. The waiting queue and the number of threads are bounded.
// A fetched file enters the store atomically, under the last segment of its URL, and replaces
// nothing. A Python process (sdk/python/baton_worker/fetch.py) downloads it, so that this process
// never parses untrusted responses.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/models/model_archive.hpp"
#include "cluster/process/child.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::cluster {

// Explains why is_archive_name (config_repository.hpp) refuses a name.
inline constexpr std::string_view archive_name_rule =
    "an archive's name is 1 to 64 of [A-Za-z0-9._-], and does not begin with a dot";

class archive_intake {
public:
  using done = std::function<void(result<model_archive>)>;
  static constexpr std::size_t waiting_max = 64;
  static constexpr std::size_t threads = 2;

  // Both arguments outlive the object.
  archive_intake(const store_config& store, child_watch& children);
  ~archive_intake(); // pending jobs get no callback

  // `which`: a name in the store, or a URL. `takes_present`: use a file of the URL's name if the
  // store has one. `then` is called from a thread of this object. Errors: overloaded.
  // Errors for `then`: those of read_model_archive; model_not_found (the URL is not allowed),
  // invalid_request (it cannot be fetched), conflict (the store has a file of that name).
  result<void> take(std::string which, bool takes_present, done then);
  // Whether reading `which` takes long and so belongs here.
  static bool takes_long(const store_config& store, const std::string& which);

private:
  struct job {
    std::string which;
    bool takes_present = false;
    done then;
  };
  void work();
  result<model_archive> read(const std::string& which, bool takes_present);
  result<void> fetch(const std::string& url, const std::string& file);

  const store_config& store_;
  child_watch& children_;
  std::mutex mutex_;
  std::condition_variable bell_;
  std::deque<job> waiting_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace baton::cluster
