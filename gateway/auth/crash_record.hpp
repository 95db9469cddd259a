// Whose requests have ended this gateway. A file that is mapped by every life of the process: each
// door thread notes the client whose request it handles, and a fatal signal marks the note. The
// next life counts a crash against that client, so that one client's requests do not end the
// gateway again and again for everybody.
//
//   unknown --crash--> suspected --crash within forget_after--> refused (refusal_first, doubled
//      ^                   |                                       |  with each further crash)
//      +-- no crash for forget_after ------------------------------+
//
// Only door threads have notes: parsing, checking and writing answers. Models run elsewhere.
#pragma once

#include "schema/messages.hpp"
#include "schema/result.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// Who has sent a request: the name of its API key, else its address. All ports of a host are one
// client.
struct crash_client {
  std::string_view key;     // empty: none
  std::string_view address; // "HOST:PORT"
};

struct crash_suspect {
  std::string client; // "key NAME" or "address HOST"
  std::uint32_t crashes = 0;
  std::chrono::seconds refused_for{0}; // from now on; 0: not refused
};

class crash_record {
  struct note;
  struct layout;

public:
  using clock = std::chrono::system_clock; // it is compared across lives
  static constexpr std::uint32_t crashes_allowed = 1;
  static constexpr std::chrono::seconds refusal_first{60};
  static constexpr std::chrono::seconds refusal_most{3600};
  static constexpr std::chrono::seconds forget_after{3600};

  // Opens the file or makes it, and counts what the last life left marked. A file of another
  // version begins anew. Requires: one process at a time has it open. Errors: io_failed.
  static result<std::shared_ptr<crash_record>> open(const std::filesystem::path& file,
                                                    clock::time_point now);
  ~crash_record();
  crash_record(const crash_record&) = delete;
  crash_record& operator=(const crash_record&) = delete;

  // Clients whose requests ended the last life.
  const std::vector<crash_suspect>& found() const noexcept { return found_; }
  // How long this client's requests are refused; 0: not at all. Any thread.
  std::chrono::seconds refused_for(const crash_client& client,
                                   clock::time_point now) const noexcept;

  // While it lives, this thread handles a request of that client. Synchronous work only: it must
  // not outlive a suspension of a coroutine. Without a free note it notes nothing.
  class handling {
  public:
    handling(crash_record* record, const crash_client& client) noexcept; // null: notes nothing
    ~handling();
    handling(const handling&) = delete;
    handling& operator=(const handling&) = delete;

  private:
    note* note_ = nullptr;
  };

  // Makes SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT mark the note of their thread, then end the
  // process as before. Once a process.
  static void mark_fatal_signals() noexcept;

private:
  explicit crash_record(layout* mapped) : mapped_(mapped) {}
  void count(const note& crashed, clock::time_point now); // into found_

  layout* mapped_;
  std::vector<crash_suspect> found_;
};

// The refusal for a client that is refused now: rate_limit_exceeded, with retry_after. Nothing if
// it is not refused, or `record` is null.
std::optional<rejected> refusal_of_suspect(const crash_record* record, const crash_client& client);

} // namespace baton::gateway
