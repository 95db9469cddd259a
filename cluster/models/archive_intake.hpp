// Takes archives in that take a while: those at a URL are fetched into the store first, and of one
// that is packed by gzip all has to be read. A bounded number waits, and few are worked at at once.
// What is fetched comes to the store under the last name of the URL, whole or not at all, and
// replaces nothing. Who fetches is a process of Python (sdk/python/baton_worker/fetch.py): what
// strangers answer is never read by this one.
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

// Of what is_archive_name (config_repository.hpp) refuses.
inline constexpr std::string_view archive_name_words =
    "an archive's name is 1 to 64 of [A-Za-z0-9._-], and does not begin with a dot";

class archive_intake {
public:
  using done = std::function<void(result<model_archive>)>;
  static constexpr std::size_t waiting_max = 64;
  static constexpr std::size_t threads = 2;

  // Both outlive it.
  archive_intake(const store_config& store, child_watch& children);
  ~archive_intake(); // whoever waits hears nothing more

  // `which`: a name in the store, or a URL. `takes_present`: where the store has a file of the
  // URL's name, that is it. `then` is called from a thread of this. Errors: overloaded. What `then`
  // hears: those of read_model_archive; model_not_found (a URL that is not allowed),
  // invalid_request (it cannot be fetched), conflict (the store has a file of that name).
  result<void> take(std::string which, bool takes_present, done then);
  // Whether `which` is for this, and not read in a moment.
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
