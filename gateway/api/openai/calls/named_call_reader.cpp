// Calls that write a name, a mark and the arguments as JSON.
#include "gateway/api/openai/calls/call_reader.hpp"

namespace baton::gateway {
namespace {

// Bytes between a name and the mark behind it: a number, an id, a type.
constexpr std::size_t aside_bytes_max = 80;

enum class named_state : std::uint8_t { open, name, aside, arguments, close, end };

class named_call_reader final : public stateful_call_reader<named_state> {
public:
  named_call_reader(const text::call_row& row, const call_reading& how)
      : stateful_call_reader(row, how) {}

private:
  using state = named_state;

  verdict step(std::string_view text, bool is_over) override {
    switch (state_) {
    case state::open:
      return then(state::name, read_open(text, is_over));
    case state::name:
      return then(state::aside, read_name(text, is_over));
    case state::aside:
      return then(state::arguments, read_aside(text, is_over));
    case state::arguments:
      return then(state::close, read_arguments(text));
    case state::close:
      return then(state::end, read_close(text, is_over));
    case state::end:
      break;
    }
    return verdict::whole;
  }

  verdict read_aside(std::string_view text, bool is_over) {
    const auto mark = without_space(row_.name_close);
    const auto rest = text.substr(at_);
    const auto found = rest.find(mark);
    const bool is_found = found != std::string_view::npos;
    const auto aside = rest.substr(0, is_found ? found : rest.size() - held_of(rest, mark));
    const bool is_aside =
        aside.size() <= aside_bytes_max && aside.find('{') == std::string_view::npos;
    if (!is_aside || (is_over && !is_found)) {
      return verdict::bad;
    }
    if (!is_found) {
      return verdict::more;
    }
    at_ += found + mark.size();
    return verdict::whole;
  }

  verdict read_arguments(std::string_view text) {
    auto& arguments = calls_.back().arguments;
    if (arguments.empty()) {
      at_ = behind_space(text, at_);
      if (at_ < text.size() && text[at_] != '{') {
        return verdict::bad;
      }
    }
    while (at_ < text.size()) {
      const auto now = scanner_.next(text[at_]);
      if (now == json_scanner::verdict::bad) {
        return verdict::bad;
      }
      arguments += text[at_++];
      if (now == json_scanner::verdict::done) {
        return grammar::parse_json(arguments) ? verdict::whole : verdict::bad;
      }
    }
    return verdict::more;
  }

  // A token that ends the answer has no text.
  verdict read_close(std::string_view text, bool is_over) {
    const auto now = match_loosely(text, at_, row_.call_close);
    if (now == text_match::partly && !is_over) {
      return verdict::more;
    }
    if (now == text_match::partly) {
      at_ = text.size();
    }
    return now == text_match::no && !row_.ends_by_control ? verdict::bad : verdict::whole;
  }

  json_scanner scanner_;
};

} // namespace

std::unique_ptr<call_reader> make_named_call_reader(const text::call_row& row,
                                                    const call_reading& how) {
  return std::make_unique<named_call_reader>(row, how);
}

} // namespace baton::gateway
