#include "gateway/auth/crash_record.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace baton::gateway {
// The layout of the file.
namespace crash_file {

constexpr std::uint64_t layout_version = 0x6261746f6e637201; // "batoncr", 1
constexpr std::size_t suspects_max = 256;
constexpr std::size_t notes_max = 128; // threads that handle requests at the same time
constexpr std::size_t client_bytes_max = 64;
constexpr std::uint32_t note_free = 0, note_handled = 1, note_crashed = 2;

using client_text = std::array<char, client_bytes_max>; // padded with zeros

struct suspect_row {
  client_text client;
  std::uint32_t crashes;
  std::uint32_t reserved;
  std::int64_t last_crash; // seconds since 1970
};

} // namespace crash_file

namespace {

using namespace crash_file;

constexpr std::array fatal_signals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// Truncated if it is longer. Does not allocate: it runs for each event of a stream.
client_text text_of(const crash_client& client) noexcept {
  client_text text{};
  std::size_t size = 0;
  const auto add = [&](std::string_view part) {
    const auto count = std::min(part.size(), text.size() - size);
    std::copy_n(part.begin(), count, text.begin() + static_cast<std::ptrdiff_t>(size));
    size += count;
  };
  add(client.key.empty() ? "address " : "key ");
  add(client.key.empty() ? client.address.substr(0, client.address.rfind(':')) : client.key);
  return text;
}

std::string shown(const client_text& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

std::int64_t seconds_of(crash_record::clock::time_point t) noexcept {
  return std::chrono::floor<std::chrono::seconds>(t.time_since_epoch()).count();
}

std::chrono::seconds refusal_of(const suspect_row& row, std::int64_t now) noexcept {
  if (row.crashes <= crash_record::crashes_allowed) {
    return std::chrono::seconds(0);
  }
  constexpr std::uint32_t doublings_max = 16;
  const auto doublings = std::min(row.crashes - crash_record::crashes_allowed - 1, doublings_max);
  const auto whole = std::min(crash_record::refusal_first * (std::int64_t{1} << doublings),
                              crash_record::refusal_most);
  const auto since = std::max<std::int64_t>(0, now - row.last_crash); // clocks can be set back
  return std::max(whole - std::chrono::seconds(since), std::chrono::seconds(0));
}

bool is_forgotten(const suspect_row& row, std::int64_t now) noexcept {
  return row.crashes == 0 || now - row.last_crash > crash_record::forget_after.count();
}

} // namespace

struct crash_record::note {
  std::uint32_t state;            // note_free, note_handled or note_crashed
  crash_file::client_text client; // of the request, unless free
};

struct crash_record::layout {
  std::uint64_t version;
  std::array<crash_file::suspect_row, crash_file::suspects_max> suspects;
  std::array<note, crash_file::notes_max> notes;
};

namespace {

constinit std::atomic<bool> marks_signals = false;
// The state of this thread's note, for its signal handler.
constinit thread_local std::uint32_t* current_state = nullptr;

// Uses only stores and system calls that are safe in a handler.
void mark_and_end(int number, siginfo_t* info, void*) {
  if (current_state) {
    *current_state = note_crashed;
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(number, &standard, nullptr);
  if (info->si_code <= 0) { // sent by a process; a processor fault repeats by itself
    raise(number);
  }
}

// A stack overflow leaves no room for a handler on the thread's own stack.
void use_own_signal_stack() noexcept {
  constexpr std::size_t stack_bytes = 16 * 1024;
  thread_local std::array<std::byte, stack_bytes> memory;
  thread_local bool is_set = false;
  if (is_set) {
    return;
  }
  is_set = true;
  stack_t old{};
  if (sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE) != 0) {
    stack_t own{};
    own.ss_sp = memory.data();
    own.ss_size = memory.size();
    sigaltstack(&own, nullptr);
  }
}

} // namespace

result<std::shared_ptr<crash_record>> crash_record::open(const std::filesystem::path& file,
                                                         clock::time_point now) {
  static_assert(std::is_trivially_copyable_v<layout>);
  const auto failed = [&](const char* what) {
    return fail(errc::io_failed, "{}: {}: {}", file.string(), what, std::strerror(errno));
  };
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return failed("cannot open");
  }
  if (ftruncate(fd, sizeof(layout)) != 0) {
    const auto why = failed("cannot resize");
    close(fd);
    return why;
  }
  void* memory = mmap(nullptr, sizeof(layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) {
    return failed("cannot map");
  }
  auto* mapped = static_cast<layout*>(memory);
  std::shared_ptr<crash_record> record(new crash_record(mapped));
  if (mapped->version != layout_version) {
    *mapped = layout{};
    mapped->version = layout_version;
  }
  for (auto& n : mapped->notes) {
    if (n.state == note_crashed) {
      record->count(n, now);
    }
    n.state = note_free;
  }
  return record;
}

crash_record::~crash_record() {
  munmap(mapped_, sizeof(layout));
}

// A new client takes the row whose last crash is the oldest.
void crash_record::count(const note& crashed, clock::time_point now) {
  const auto at = seconds_of(now);
  auto& rows = mapped_->suspects;
  auto row = std::find_if(rows.begin(), rows.end(), [&](const suspect_row& r) {
    return r.crashes != 0 && r.client == crashed.client;
  });
  if (row == rows.end()) {
    row =
        std::min_element(rows.begin(), rows.end(), [](const suspect_row& a, const suspect_row& b) {
          return (a.crashes == 0 ? INT64_MIN : a.last_crash) <
                 (b.crashes == 0 ? INT64_MIN : b.last_crash);
        });
    row->crashes = 0;
  }
  if (is_forgotten(*row, at)) {
    row->crashes = 0;
    row->client = crashed.client;
  }
  row->crashes = std::min(row->crashes + 1, UINT32_MAX - 1);
  row->last_crash = at;
  found_.push_back({shown(row->client), row->crashes, refusal_of(*row, at)});
}

std::chrono::seconds crash_record::refused_for(const crash_client& client,
                                               clock::time_point now) const noexcept {
  const auto text = text_of(client);
  for (const auto& row : mapped_->suspects) {
    if (row.crashes > crashes_allowed && row.client == text) {
      return refusal_of(row, seconds_of(now));
    }
  }
  return std::chrono::seconds(0);
}

crash_record::handling::handling(crash_record* record, const crash_client& client) noexcept {
  if (!record || current_state) { // nested in a noted request
    return;
  }
  static std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t first = threads++;
  auto& notes = record->mapped_->notes;
  for (std::size_t i = 0; i < notes.size() && !note_; ++i) {
    auto& candidate = notes[(first + i) % notes.size()];
    std::uint32_t expected = note_free;
    if (std::atomic_ref(candidate.state).compare_exchange_strong(expected, note_handled)) {
      note_ = &candidate;
    }
  }
  if (!note_) {
    return;
  }
  note_->client = text_of(client);
  if (marks_signals.load(std::memory_order_relaxed)) {
    use_own_signal_stack();
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  current_state = &note_->state;
}

crash_record::handling::~handling() {
  if (note_) {
    current_state = nullptr;
    std::atomic_ref(note_->state).store(note_free);
  }
}

void crash_record::mark_fatal_signals() noexcept {
  marks_signals = true;
  for (const int number : fatal_signals) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) {
      continue; // a sanitizer's, which reports more
    }
    struct sigaction action {};
    action.sa_sigaction = mark_and_end;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(number, &action, nullptr);
  }
}

std::optional<rejected> refusal_of_suspect(const crash_record* record, const crash_client& client) {
  if (!record) {
    return std::nullopt;
  }
  const auto wait = record->refused_for(client, crash_record::clock::now());
  if (wait == wait.zero()) {
    return std::nullopt;
  }
  rejected no;
  no.reason =
      fail(errc::rate_limit_exceeded,
           "requests of this client crashed the server more than once; they are refused for {} s",
           wait.count());
  no.retry_after = wait;
  return no;
}

} // namespace baton::gateway
