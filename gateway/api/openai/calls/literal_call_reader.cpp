// Calls whose arguments are literals: Python's f(a=1), and Gemma's f{a:1}.
#include "gateway/api/openai/calls/call_literal.hpp"
#include "gateway/api/openai/calls/call_reader.hpp"

#include <functional>

namespace baton::gateway {
namespace {

constexpr std::size_t literal_key_bytes_max = 256;

//   open -> name -> first --key--> key -> value -> next -> key or closed
//                     +--closed--> after --another call--> name
//                                    +--call_close--> end
enum class literal_state : std::uint8_t { open, name, begin, first, key, value, next, after, end };

class literal_call_reader final : public stateful_call_reader<literal_state> {
public:
  literal_call_reader(const text::call_row& row, const call_reading& how)
      : stateful_call_reader(row, how), is_python_(row.syntax == text::call_syntax::python),
        scanner_(row.quote) {}

private:
  using state = literal_state;

  verdict step(std::string_view text, bool is_over) override {
    switch (state_) {
    case state::open:
      return then(state::name, read_open(text, is_over));
    case state::name:
      return then(state::begin, read_name(text, is_over));
    case state::begin:
      return then(state::first, read_mark(text, is_python_ ? "(" : "{", is_over));
    case state::first:
      return read_first(text, is_over);
    case state::key:
      return read_key(text, is_over);
    case state::value:
      return read_value(text, is_over);
    case state::next:
      return read_next(text);
    case state::after:
      return read_after(text, is_over);
    case state::end:
      break;
    }
    return verdict::whole;
  }

  char closes() const noexcept { return is_python_ ? ')' : '}'; }

  verdict close_call() {
    ++at_;
    end_arguments();
    return then(state::after, verdict::whole);
  }

  verdict read_first(std::string_view text, bool is_over) {
    at_ = behind_space(text, at_);
    if (at_ == text.size()) {
      return is_over ? verdict::bad : verdict::more;
    }
    return text[at_] == closes() ? close_call() : then(state::key, verdict::whole);
  }

  verdict read_key(std::string_view text, bool is_over) {
    const auto end = text.find(is_python_ ? '=' : ':', at_);
    const auto key = without_space(text.substr(at_, end - at_));
    const auto bare = unquoted(key);
    const bool is_key =
        key.size() <= literal_key_bytes_max && key.find('\n') == std::string_view::npos;
    if (!is_key || (end == std::string_view::npos && is_over)) {
      return verdict::bad;
    }
    if (end == std::string_view::npos) {
      return verdict::more;
    }
    if (is_repeated(bare) || bare.empty() ||
        bare.find_first_of("=:,(){}[]\"' ") != std::string_view::npos) {
      return verdict::bad;
    }
    begin_argument(bare);
    at_ = value_at_ = end + 1;
    scanner_ = literal_scanner(row_.quote);
    return then(state::value, verdict::whole);
  }

  std::string_view unquoted(std::string_view key) const {
    for (const auto quote : {row_.quote, std::string_view("\"")}) {
      const bool is_in = !quote.empty() && key.size() >= 2 * quote.size() &&
                         key.starts_with(quote) && key.ends_with(quote);
      key = is_in ? key.substr(quote.size(), key.size() - 2 * quote.size()) : key;
    }
    return key;
  }

  verdict read_value(std::string_view text, bool is_over) {
    if (!scanner_.find_end(text, at_)) {
      return is_over ? verdict::bad : verdict::more;
    }
    const auto json = json_of_literal(text.substr(value_at_, at_ - value_at_), row_.quote);
    if (!json || !grammar::parse_json(*json)) { // such as a map with a name twice
      return verdict::bad;
    }
    calls_.back().arguments += *json;
    return then(state::next, verdict::whole);
  }

  // At the character that ended the value.
  verdict read_next(std::string_view text) {
    if (text[at_] == closes()) {
      return close_call();
    }
    if (text[at_] != ',') {
      return verdict::bad;
    }
    ++at_;
    return then(state::first, verdict::whole); // Python allows a comma behind the last one
  }

  verdict read_after(std::string_view text, bool is_over) {
    const auto close = match_loosely(text, at_, row_.call_close);
    if (close == text_match::whole) {
      return then(state::end, verdict::whole);
    }
    if (close == text_match::partly) {
      if (!is_over) {
        return verdict::more;
      }
      at_ = text.size();
      return then(state::end, verdict::whole);
    }
    return is_python_ ? then(state::name, read_mark(text, ",", is_over)) : verdict::bad;
  }

  bool is_python_;
  literal_scanner scanner_;
  std::size_t value_at_ = 0;
};

} // namespace

std::unique_ptr<call_reader> make_literal_call_reader(const text::call_row& row,
                                                      const call_reading& how) {
  return std::make_unique<literal_call_reader>(row, how);
}

} // namespace baton::gateway
