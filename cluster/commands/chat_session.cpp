#include "cluster/commands/chat_session.hpp"

#include "cluster/commands/line_editor.hpp"
#include "gateway/api/openai/calls/answer_parser.hpp"
#include "gateway/api/openai/request/openai_reasoning.hpp"
#include "schema/nearest.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <utility>

namespace baton::cluster {
namespace {

constexpr std::chrono::seconds chunk_patience{120};
constexpr std::chrono::milliseconds interrupt_look_interval{50};
constexpr std::string_view block_mark = "\"\"\"";
constexpr double temperature_max = 2;
constexpr std::uint32_t max_tokens_max = 1 << 20;

constexpr const char* help_text =
    "  /clear              forget the conversation\n"
    "  /save FILE          write the conversation as JSON\n"
    "  /set NAME VALUE     temperature, max_tokens or system; without a value: the default\n"
    "  /set thinking VALUE off, hide, or the most tokens that the model thinks\n"
    "  /model [NAME]       show the models, or talk to another one\n"
    "  /exit               end (also ^D)\n"
    "  \"\"\"                 begin and end a message of several lines\n"
    "  ^C                  stop an answer\n";

void say_note(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

// Shows an answer as it comes: the text on stdout, and before it, dimmed on the terminal, what the
// model thinks.
class answer_display {
public:
  explicit answer_display(bool shows_reasoning)
      : shows_reasoning_(shows_reasoning), has_colors_(std::getenv("NO_COLOR") == nullptr) {}
  answer_display(const answer_display&) = delete;
  answer_display& operator=(const answer_display&) = delete;
  ~answer_display() { end_reasoning(""); }

  void show(const gateway::call_delta& part) {
    if (!part.reasoning.empty() && shows_reasoning_) {
      if (!std::exchange(is_in_reasoning_, true) && has_colors_)
        std::fputs("\033[2m", stderr);
      std::fputs(part.reasoning.c_str(), stderr);
    }
    if (part.text.empty())
      return;
    end_reasoning("\n\n");
    std::fputs(part.text.c_str(), stdout);
    std::fflush(stdout);
  }

private:
  void end_reasoning(const char* space) {
    if (std::exchange(is_in_reasoning_, false))
      std::fprintf(stderr, "%s%s", has_colors_ ? "\033[0m" : "", space);
  }

  bool shows_reasoning_;
  bool has_colors_;
  bool is_in_reasoning_ = false;
};

// The first word and the rest, without the spaces between them.
std::pair<std::string, std::string> split_word(const std::string& line) {
  const auto end = line.find(' ');
  if (end == std::string::npos)
    return {line, ""};
  const auto rest = line.find_first_not_of(' ', end);
  return {line.substr(0, end), rest == std::string::npos ? "" : line.substr(rest)};
}

template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number value{};
  const auto [at, why] = std::from_chars(text.data(), text.data() + text.size(), value);
  return why == std::errc() && at == text.data() + text.size() ? std::optional(value)
                                                               : std::nullopt;
}

} // namespace

chat_session::chat_session(client& connection, chat_options options)
    : connection_(connection), options_(std::move(options)),
      shows_notes_(isatty(STDERR_FILENO) == 1) {
  clear();
}

void chat_session::clear() {
  messages_.clear();
  if (!options_.system.empty())
    messages_.push_back({.role = "system", .content = options_.system, .name = ""});
}

generate chat_session::request_of_now() const {
  generate request;
  request.model = options_.model;
  request.input = messages_;
  request.unspecified = all_sampling_fields & ~bit_of(sampling_field::max_tokens);
  auto& terms = request.terms;
  if (options_.temperature) {
    terms.sampling.temperature = static_cast<float>(*options_.temperature);
    request.unspecified &= ~bit_of(sampling_field::temperature);
  }
  terms.sampling.seed = std::random_device{}();
  terms.stop.max_tokens = options_.max_tokens;
  terms.max_tokens_given = true;
  if (reasoning_tokens_max_ == 0) {
    gateway::asked_reasoning off;
    off.is_on = false;
    gateway::put_reasoning_kwargs(off, request.template_options.kwargs);
  } else if (reasoning_tokens_max_) {
    constraint bounded{constraint_kind::free, {}};
    bounded.reasoning_tokens_max = *reasoning_tokens_max_;
    terms.sampling.constraint = std::move(bounded);
  }
  return request;
}

result<chat_session::answered> chat_session::stream_answer() {
  using clock = std::chrono::steady_clock;
  auto stream = connection_.generate(request_of_now());
  if (!stream)
    return stream.error();
  answered all;
  answer_display display(shows_notes_ && shows_reasoning_);
  gateway::answer_parser parser(nullptr, /*reads_reasoning=*/true);
  const auto take = [&](const gateway::call_delta& part) {
    display.show(part);
    all.reasoning += part.reasoning;
    all.text += part.text;
  };
  std::optional<clock::time_point> begun;
  auto last = clock::now();
  bool is_cancelled = false;
  for (;;) {
    if (!is_cancelled && (was_interrupted() || is_asked_to_end())) {
      is_cancelled = true;
      stream->cancel();
    }
    auto received = stream->next(interrupt_look_interval);
    if (!received && received.error().code == errc::deadline_exceeded &&
        clock::now() - last < chunk_patience)
      continue;
    if (!received)
      return received.error();
    if (!*received)
      break;
    last = clock::now();
    const auto& piece = **received;
    if (!begun && piece.count > 0)
      begun = last;
    gateway::call_delta part;
    parser.add(piece, piece.text, part);
    take(part);
    all.tokens = piece.output_tokens;
    all.finish = piece.finish;
    if (piece.failure && piece.finish != finish::cancelled)
      return *piece.failure;
  }
  gateway::call_delta rest;
  parser.finish(rest);
  take(rest);
  if (begun)
    all.seconds = std::chrono::duration<double>(last - *begun).count();
  return all;
}

void chat_session::show_end(const answered& a) const {
  if (!shows_notes_)
    return;
  if (a.finish == finish::length)
    say_note(fmt::format("(cut after {} tokens: /set max_tokens, or --max-tokens)", a.tokens));
  if (a.finish == finish::cancelled)
    say_note("(stopped)");
  if (a.tokens > 1 && a.seconds > 0)
    say_note(fmt::format("({} tokens, {:.1f} tokens/s)", a.tokens, (a.tokens - 1) / a.seconds));
}

result<void> chat_session::ask(const std::string& text) {
  messages_.push_back({.role = "user", .content = text, .name = ""});
  auto answer = stream_answer();
  if (!answer) {
    messages_.pop_back();
    return answer.error();
  }
  std::puts("");
  show_end(*answer);
  messages_.push_back({.role = "assistant",
                       .content = std::move(answer->text),
                       .name = "",
                       .reasoning = std::move(answer->reasoning)});
  return {};
}

int chat_session::converse() {
  line_editor lines(state_file("chat_history"));
  if (lines.is_terminal())
    say_note("/help shows the commands, ^D ends.");
  int status = 0;
  bool is_in_block = false;
  std::string text;
  for (;;) {
    auto line = lines.read(is_in_block ? "... " : "> ");
    if (line.how == line_editor::ending::closed)
      break;
    if (line.how == line_editor::ending::interrupted) {
      is_in_block = false;
      text.clear();
      continue;
    }
    const bool begins = !is_in_block && line.text.starts_with(block_mark);
    if (begins)
      line.text.erase(0, block_mark.size());
    const bool was_block = begins || is_in_block;
    if (was_block) {
      is_in_block = !line.text.ends_with(block_mark);
      if (!is_in_block)
        line.text.resize(line.text.size() - block_mark.size());
      text += line.text + (is_in_block ? "\n" : "");
      if (is_in_block)
        continue;
    } else {
      text = line.text;
    }
    const auto asked = std::exchange(text, "");
    if (asked.find_first_not_of(" \t\n") == std::string::npos)
      continue;
    if (!was_block && asked.front() == '/' && lines.is_terminal()) {
      if (obey(asked) == effect::leave)
        break;
      continue;
    }
    const auto done = ask(asked);
    if (done)
      continue;
    say_note(fmt::format("error: {}: {}", row_of(done.error().code).name, done.error().message));
    if (!lines.is_terminal() || !connection_.is_open()) {
      status = 1;
      break;
    }
  }
  return status;
}

chat_session::effect chat_session::obey(const std::string& line) {
  const auto [command, rest] = split_word(line);
  if (command == "/exit" || command == "/bye" || command == "/quit")
    return effect::leave;
  if (command == "/help" || command == "/?") {
    std::fputs(help_text, stderr);
  } else if (command == "/clear") {
    clear();
    say_note("The conversation is forgotten.");
  } else if (command == "/save") {
    save(rest);
  } else if (command == "/set") {
    const auto [setting, value] = split_word(rest);
    set(setting, value);
  } else if (command == "/model") {
    choose_model(rest);
  } else {
    constexpr std::array names{"/help", "/clear", "/save", "/set", "/model", "/exit"};
    const auto near = nearest_name(command, names);
    say_note(fmt::format("{}: no such command{}", command,
                         near ? fmt::format("; did you mean {}?", *near) : "; /help lists them"));
  }
  return effect::go_on;
}

void chat_session::set(const std::string& setting, const std::string& value) {
  if (setting == "system") {
    options_.system = value;
    if (!messages_.empty() && messages_.front().role == "system")
      messages_.erase(messages_.begin());
    if (!value.empty())
      messages_.insert(messages_.begin(), {.role = "system", .content = value, .name = ""});
  } else if (setting == "temperature") {
    const auto number = number_of<double>(value);
    if (!value.empty() && !(number && *number >= 0 && *number <= temperature_max))
      return say_note(fmt::format("temperature is a number from 0 to {}", temperature_max));
    options_.temperature = number;
  } else if (setting == "max_tokens") {
    const auto number =
        value.empty() ? std::optional(chat_options{}.max_tokens) : number_of<std::uint32_t>(value);
    if (!number || *number == 0 || *number > max_tokens_max)
      return say_note(fmt::format("max_tokens is a number from 1 to {}", max_tokens_max));
    options_.max_tokens = *number;
  } else if (setting == "thinking") {
    if (!set_thinking(value))
      return say_note(
          fmt::format("thinking is off, hide, or a number from 1 to {}", max_tokens_max));
  } else {
    return say_note("/set takes temperature, max_tokens, system or thinking");
  }
  say_note(value.empty() ? setting + " has its default" : setting + " is " + value);
}

bool chat_session::set_thinking(const std::string& value) {
  const bool is_word = value.empty() || value == "off" || value == "hide";
  const auto number = number_of<std::int32_t>(value);
  if (!is_word && !(number && *number > 0 && *number <= static_cast<std::int32_t>(max_tokens_max)))
    return false;
  shows_reasoning_ = value != "hide";
  reasoning_tokens_max_ = value == "off" ? std::optional(0) : number;
  return true;
}

void chat_session::choose_model(const std::string& name) {
  auto models = connection_.models();
  if (!models)
    return say_note("error: " + models.error().message);
  for (const auto& m : *models) {
    if (m.name == name) {
      options_.model = name;
      return say_note("The model is " + name + ".");
    }
  }
  for (const auto& m : *models)
    say_note(fmt::format("{} {}", m.name == options_.model ? '*' : ' ', m.name));
  if (!name.empty())
    say_note(fmt::format("The model '{}' is not served there.", name));
}

void chat_session::save(const std::string& file) const {
  if (file.empty())
    return say_note("/save takes the name of a file");
  auto all = nlohmann::ordered_json::array();
  for (const auto& m : messages_) {
    auto one = nlohmann::ordered_json{{"role", m.role}, {"content", m.content}};
    if (!m.reasoning.empty())
      one["reasoning_content"] = m.reasoning;
    all.push_back(std::move(one));
  }
  std::ofstream out(file);
  out << nlohmann::ordered_json{{"model", options_.model}, {"messages", std::move(all)}}.dump(
             2, ' ', false, nlohmann::json::error_handler_t::replace)
      << "\n";
  out.close();
  say_note(out ? fmt::format("{} messages are in {}", messages_.size(), file)
               : fmt::format("{}: cannot be written", file));
}

} // namespace baton::cluster
