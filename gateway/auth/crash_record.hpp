// Records which client's requests crashed this gateway, in a file that all incarnations of the
// process map. Each server thread notes the client of the request it handles, and a fatal signal
// marks the note. The next incarnation counts a crash against that client. Thus one client cannot
// crash the gateway again and again for all others.
//
//   unknown --crash--> suspected --crash within forget_after--> refused (refusal_first, doubled
//      ^                   |                                       |  with each further crash)
//      +-- no crash for forget_after ------------------------------+
//
// Only server threads have notes: they parse, check and write answers. Models run elsewhere.
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

// The sender of a request: the name of its API key, else its address. All ports of a host count as
// one client.
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
  using clock = std::chrono::system_clock; // comparable across incarnations
  static constexpr std::uint32_t crashes_allowed = 1;
  static constexpr std::chrono::seconds refusal_first{60};
  static constexpr std::chrono::seconds refusal_most{3600};
  static constexpr std::chrono::seconds forget_after{3600};

  // Opens or creates the file, and counts the notes that the last incarnation left marked. A file
  // of another version is reset. Requires: one process at a time has it open. Errors: io_failed.
  static result<std::shared_ptr<crash_record>> open(const std::filesystem::path& file,
                                                    clock::time_point now);
  ~crash_record();
  crash_record(const crash_record&) = delete;
  crash_record& operator=(const crash_record&) = delete;

  // Clients whose requests crashed the last incarnation.
  const std::vector<crash_suspect>& found() const noexcept { return found_; }
  // How long this client's requests are refused; 0: not at all. Any thread.
  std::chrono::seconds refused_for(const crash_client& client,
                                   clock::time_point now) const noexcept;

  // While it exists, this thread handles a request of that client. For synchronous work only: it
  // must not outlive a suspension of a coroutine. Records nothing if no note is free.
  class handling {
  public:
    handling(crash_record* record, const crash_client& client) noexcept; // null: records nothing
    ~handling();
    handling(const handling&) = delete;
    handling& operator=(const handling&) = delete;

  private:
    note* note_ = nullptr;
  };

  // Makes SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT mark the note of their thread, then end the
  // process as before. Called once per process.
  static void mark_fatal_signals() noexcept;

private:
  explicit crash_record(layout* mapped) : mapped_(mapped) {}
  void count(const note& crashed, clock::time_point now); // into found_

  layout* mapped_;
  std::vector<crash_suspect> found_;
};

// The refusal of a client that is refused now: rate_limit_exceeded, with retry_after. Empty if it
// is not refused, or `record` is null.
std::optional<rejected> refusal_of_suspect(const crash_record* record, const crash_client& client);

} // namespace baton::gateway
