#include "cluster/commands/line_editor.hpp"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>
#include <utility>

namespace baton::cluster {
namespace {

constexpr int history_lines_max = 1000;
constexpr int signal_look_ms = 100;

volatile std::sig_atomic_t interrupt_flag = 0;
volatile std::sig_atomic_t end_flag = 0;

void note_signal(int number) {
  if (number == SIGINT)
    interrupt_flag = 1;
  else
    end_flag = 1;
}

// Reads one character for libedit. Its own function would go on reading after a signal.
int read_character(EditLine*, wchar_t* to) {
  std::mbstate_t state{};
  for (;;) {
    if (interrupt_flag != 0 || end_flag != 0) // before what was typed after it
      return 0;
    pollfd in{STDIN_FILENO, POLLIN, 0};
    if (poll(&in, 1, signal_look_ms) <= 0)
      continue;
    char byte = 0;
    const auto count = ::read(STDIN_FILENO, &byte, 1);
    if (count <= 0)
      return 0;
    const auto used = std::mbrtowc(to, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-1)) // no UTF-8: dropped
      state = {};
    else if (used != static_cast<std::size_t>(-2)) // else more bytes of it follow
      return 1;
  }
}

} // namespace

struct line_editor::terminal {
  explicit terminal(std::filesystem::path history) : file(std::move(history)) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
    editor = el_init("cluster", stdin, stdout, stderr);
    past = history_init();
    HistEvent event{};
    ::history(past, &event, H_SETSIZE, history_lines_max);
    ::history(past, &event, H_SETUNIQUE, 1);
    if (!file.empty())
      ::history(past, &event, H_LOAD, file.c_str());
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, &prompt_of);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, ::history, past);
    el_set(editor, EL_GETCFN, &read_character);
    el_source(editor, nullptr); // ~/.editrc
  }
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;
  ~terminal() {
    history_end(past);
    el_end(editor);
  }

  static char* prompt_of(EditLine* editor) {
    terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }

  void remember(const std::string& line) {
    HistEvent event{};
    ::history(past, &event, H_ENTER, line.c_str());
    if (file.empty())
      return;
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    if (::history(past, &event, H_SAVE, file.c_str()) >= 0) // questions may be private
      std::filesystem::permissions(
          file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
  }

  std::filesystem::path file;
  std::string prompt;
  EditLine* editor = nullptr;
  History* past = nullptr;
};

line_editor::line_editor(std::filesystem::path history) {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1)
    terminal_ = std::make_unique<terminal>(std::move(history));
}

line_editor::~line_editor() = default;

line_editor::typed line_editor::read(const std::string& prompt) {
  typed line;
  if (!terminal_) {
    if (end_flag != 0 || !std::getline(std::cin, line.text))
      line.how = was_interrupted() ? ending::interrupted : ending::closed;
    return line;
  }
  terminal_->prompt = prompt;
  el_resize(terminal_->editor);
  int length = 0;
  const char* text = el_gets(terminal_->editor, &length);
  if (is_asked_to_end() || was_interrupted()) {
    std::puts("");
    return {is_asked_to_end() ? ending::closed : ending::interrupted, ""};
  }
  if (!text || length <= 0) {
    std::puts("");
    return {ending::closed, ""};
  }
  line.text.assign(text, static_cast<std::size_t>(length));
  while (line.text.ends_with('\n') || line.text.ends_with('\r'))
    line.text.pop_back();
  if (!line.text.empty())
    terminal_->remember(line.text);
  return line;
}

void catch_interrupts() {
  struct sigaction how {};
  how.sa_handler = note_signal; // without SA_RESTART: a read of the terminal ends
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(number, &how, nullptr);
    sigaddset(&set, number);
  }
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool was_interrupted() {
  const bool was = interrupt_flag != 0;
  interrupt_flag = 0;
  return was;
}

bool is_asked_to_end() {
  return end_flag != 0;
}

std::filesystem::path state_file(const std::string& file) {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return std::filesystem::path(state) / "baton" / file;
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".local/state/baton" / file;
  return {};
}

} // namespace baton::cluster
