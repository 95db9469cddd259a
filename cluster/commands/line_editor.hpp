// Lines that a person types, with editing and a history; or the lines of a pipe, as they are.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace baton::cluster {

class line_editor {
public:
  enum class ending {
    line,
    interrupted, // ^C: what was typed so far is dropped
    closed,      // the end of the input, or SIGTERM
  };
  struct typed {
    ending how = ending::line;
    std::string text; // without the line's end
  };

  // On a terminal, the history is read from `history`, and each line is added to it. Empty: it is
  // not kept.
  explicit line_editor(std::filesystem::path history);
  ~line_editor();
  line_editor(const line_editor&) = delete;
  line_editor& operator=(const line_editor&) = delete;

  // stdin and stdout are a terminal: the prompt is shown, and lines can be edited.
  bool is_terminal() const noexcept { return terminal_ != nullptr; }
  // Requires: catch_interrupts() was called.
  typed read(const std::string& prompt);

private:
  struct terminal; // holds libedit's types
  std::unique_ptr<terminal> terminal_;
};

// From here on ^C, SIGTERM and SIGHUP set flags in place of ending the process. For the main
// thread, after the other threads were started with these signals blocked.
void catch_interrupts();
// Whether ^C was pressed since the last call.
bool was_interrupted();
// Whether SIGTERM or SIGHUP has come: the process should end.
bool is_asked_to_end();

// $XDG_STATE_HOME/baton/FILE, or ~/.local/state/baton/FILE; empty without a home.
std::filesystem::path state_file(const std::string& file);

} // namespace baton::cluster
