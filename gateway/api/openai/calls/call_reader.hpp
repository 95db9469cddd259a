// Reads the calls of one syntax (runtime/text/stream/call_style.hpp), from their mark on, as the
// text grows. Used by call_parser.cpp. Pure.
//
//   read(text) -> more --read(text, and more behind)--> whole: calls() and size() are final
//                   +-----------------------------------> bad: it is no call of a given tool
#pragma once

#include "gateway/api/openai/calls/call_scan.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"
#include "runtime/text/stream/call_style.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace baton::gateway {

// How to read an answer's calls.
struct call_reading {
  call_format format = call_format::hermes;
  std::vector<std::string> names; // of the tools: letters, digits, '_' and '-'
  bool is_constrained = false;    // generated under the grammar of these calls
  // The schemas of the tools' arguments, in the order of the names; or none. They give
  // values without quotes their types.
  std::vector<grammar::json_value> schemas{};
};

class call_reader {
public:
  enum class verdict : std::uint8_t { more, whole, bad };
  // `arguments`: JSON, so far. It only grows.
  struct call {
    std::string name, arguments;
  };

  virtual ~call_reader() = default;
  call_reader(const call_reader&) = delete;
  call_reader& operator=(const call_reader&) = delete;

  // Reads on. `text` begins with the calls' mark, and is each time the text before with more
  // behind it. `is_over`: nothing follows, so an end mark that is cut short is whole.
  virtual verdict read(std::string_view text, bool is_over) = 0;

  const std::vector<call>& calls() const noexcept { return calls_; } // so far
  std::size_t size() const noexcept { return at_; }                  // bytes, if whole

protected:
  call_reader(const text::call_row& row, const call_reading& how) : row_(row), how_(how) {}

  verdict read_open(std::string_view text, bool is_over);
  // Adds a call. bad: there is no such tool.
  verdict read_name(std::string_view text, bool is_over);
  // `pattern` at at_: moves behind it.
  verdict read_mark(std::string_view text, std::string_view pattern, bool is_over);
  // Whether the last call has this argument. Under the grammar a name that no schema has may come
  // again, and its call is given already: then false.
  bool is_repeated(std::string_view key) const {
    return !how_.is_constrained && keys_.contains(key);
  }
  // For the last call: before the value of an argument, and behind the last argument.
  void begin_argument(std::string_view key);
  void end_arguments();

  const text::call_row& row_;
  const call_reading& how_;
  std::vector<call> calls_;
  std::size_t at_ = 0;   // read so far
  std::size_t tool_ = 0; // of the last call, in how_.names

private:
  std::set<std::string, std::less<>> keys_; // of the last call's arguments, so far
};

// A reader as a sequence of states, the last of which is State::end.
template <class State>
class stateful_call_reader : public call_reader {
public:
  verdict read(std::string_view text, bool is_over) final {
    auto now = verdict::whole;
    while (now == verdict::whole && state_ != State::end) {
      now = step(text, is_over);
    }
    return now;
  }

protected:
  using call_reader::call_reader;
  // Reads the part of state_, and calls then().
  virtual verdict step(std::string_view text, bool is_over) = 0;
  // The next state, once the part is whole.
  verdict then(State next, verdict now) noexcept {
    state_ = now == verdict::whole ? next : state_;
    return now;
  }

  State state_{}; // the first one
};

// Requires: the format's syntax is not `json`. `how` outlives the reader.
std::unique_ptr<call_reader> make_call_reader(const call_reading& how);
std::unique_ptr<call_reader> make_named_call_reader(const text::call_row& row,
                                                    const call_reading& how);
std::unique_ptr<call_reader> make_tagged_call_reader(const text::call_row& row,
                                                     const call_reading& how);
std::unique_ptr<call_reader> make_literal_call_reader(const text::call_row& row,
                                                      const call_reading& how);

} // namespace baton::gateway
