// A conversation with a model in the terminal: its messages, its settings and its commands.
#pragma once

#include "cluster/commands/commands.hpp"

#include <baton/client.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

class chat_session {
public:
  // `connection` outlives it. The model is resolved: options.model is not empty.
  chat_session(client& connection, chat_options options);

  // Asks `text` and streams the answer to stdout. ^C ends the answer. A failed question leaves the
  // conversation as it was. Errors: the server's, link_down.
  result<void> ask(const std::string& text);
  // Reads lines and asks them, until the input ends or /exit. Returns the exit status.
  int converse();

private:
  struct answered {
    std::string reasoning; // what the model thought before its answer
    std::string text;
    std::uint32_t tokens = 0;
    double seconds = 0; // from the first token to the last
    baton::finish finish = baton::finish::none;
  };
  enum class effect { go_on, leave };

  result<answered> stream_answer();
  generate request_of_now() const;
  void show_end(const answered& a) const;
  // A line that begins with '/'.
  effect obey(const std::string& line);
  void set(const std::string& setting, const std::string& value);
  bool set_thinking(const std::string& value); // false: it is no such value
  void choose_model(const std::string& name);
  void save(const std::string& file) const;
  void clear();

  client& connection_;
  chat_options options_;
  chat_prompt messages_;
  bool shows_notes_ = false; // stderr is a terminal
  bool shows_reasoning_ = true;
  std::optional<std::int32_t> reasoning_tokens_max_; // 0: it does not think
};

} // namespace baton::cluster
