// Calls that write each argument between tags, a text without quotes.
#include "gateway/api/openai/calls/call_reader.hpp"
#include "runtime/grammar/json_schema/value_kinds.hpp"

#include <functional>

namespace baton::gateway {
namespace {

constexpr std::size_t tagged_key_bytes_max = 256;
constexpr auto only_text = grammar::bit_of(grammar::json_value::kind::string);

//   open -> name -> next --key--> key -> value -> next
//                     +--call_close--> end
enum class tagged_state : std::uint8_t { open, name, name_close, next, key, value, end };

class tagged_call_reader final : public stateful_call_reader<tagged_state> {
public:
  tagged_call_reader(const text::call_row& row, const call_reading& how)
      : stateful_call_reader(row, how), value_end_(without_space(row.value_close)),
        key_end_(row.key_close.substr(0, row.key_close.find_first_of(call_space))) {}

private:
  using state = tagged_state;

  verdict step(std::string_view text, bool is_over) override {
    switch (state_) {
    case state::open:
      return then(state::name, read_open(text, is_over));
    case state::name:
      return then(state::name_close, read_name(text, is_over));
    case state::name_close:
      return then(state::next, read_mark(text, row_.name_close, is_over));
    case state::next:
      return read_next(text, is_over);
    case state::key:
      return read_key(text, is_over);
    case state::value:
      return read_value(text, is_over);
    case state::end:
      break;
    }
    return verdict::whole;
  }

  verdict read_next(std::string_view text, bool is_over) {
    const auto key = match_loosely(text, at_, row_.key_open);
    if (key == text_match::whole) {
      return then(state::key, verdict::whole);
    }
    const auto close = match_loosely(text, at_, row_.call_close);
    const bool is_begun = close == text_match::partly || key == text_match::partly;
    if (is_begun && !is_over) {
      return verdict::more;
    }
    if (close == text_match::no) {
      return verdict::bad;
    }
    at_ = close == text_match::partly ? text.size() : at_;
    end_arguments();
    return then(state::end, verdict::whole);
  }

  verdict read_key(std::string_view text, bool is_over) {
    const auto end = text.find(key_end_, at_);
    if (end == std::string_view::npos) {
      return is_over || text.size() - at_ > tagged_key_bytes_max ? verdict::bad : verdict::more;
    }
    const auto key = without_space(text.substr(at_, end - at_));
    auto behind = end;
    const auto now = match_loosely(text, behind, row_.key_close);
    const bool is_key = !key.empty() && key.size() <= tagged_key_bytes_max &&
                        key.find_first_of("<>\n") == std::string_view::npos;
    if (!is_key || is_repeated(key) || now == text_match::no ||
        (now == text_match::partly && is_over)) {
      return verdict::bad;
    }
    if (now == text_match::partly) {
      return verdict::more;
    }
    begin_argument(key);
    begin_value(key, behind);
    return then(state::value, verdict::whole);
  }

  void begin_value(std::string_view key, std::size_t value_at) {
    kinds_ = grammar::all_kinds;
    if (tool_ < how_.schemas.size()) {
      const auto& schema = how_.schemas[tool_];
      const auto* of = grammar::member_schema(schema, key);
      kinds_ = of ? grammar::kinds_of(*of, schema) : kinds_;
    }
    at_ = scanned_ = value_at;
    is_trimmed_ = is_begun_ = false;
  }

  // A line end behind the opening tag, or before the closing one, belongs to the tags if the format
  // has it there.
  verdict read_value(std::string_view text, bool is_over) {
    if (!is_trimmed_ && row_.key_close.ends_with('\n')) {
      if (at_ == text.size() && !is_over) {
        return verdict::more;
      }
      at_ += text.substr(at_).starts_with('\n') ? 1 : 0;
      scanned_ = at_;
    }
    is_trimmed_ = true;
    const auto close = text.find(value_end_, scanned_);
    const bool is_whole = close != std::string_view::npos;
    auto end = is_whole ? close : text.size() - held_of(text.substr(scanned_), value_end_);
    scanned_ = std::max(scanned_, end);
    if (row_.value_close.starts_with('\n') && end > at_ && text[end - 1] == '\n') {
      --end;
    }
    auto& arguments = calls_.back().arguments;
    if (kinds_ == only_text) { // as it is written
      const auto json = grammar::quoted(text.substr(at_, end - at_));
      const std::size_t quotes = is_begun_ ? 1 : 0;
      arguments += std::string_view(json).substr(quotes, json.size() - 1 - quotes);
      is_begun_ = true;
      at_ = end;
      arguments += is_whole ? "\"" : "";
    } else if (is_whole) {
      arguments += grammar::json_of_written(text.substr(at_, end - at_), kinds_);
    }
    if (!is_whole) {
      return is_over ? verdict::bad : verdict::more;
    }
    at_ = close + value_end_.size();
    return then(state::next, verdict::whole);
  }

  std::string_view value_end_, key_end_;
  grammar::value_kinds kinds_ = grammar::all_kinds; // of the argument
  std::size_t scanned_ = 0;                         // no value_end_ begins before
  bool is_trimmed_ = false;                         // a line end before it is left out
  bool is_begun_ = false;                           // a part of the text is given
};

} // namespace

std::unique_ptr<call_reader> make_tagged_call_reader(const text::call_row& row,
                                                     const call_reading& how) {
  return std::make_unique<tagged_call_reader>(row, how);
}

} // namespace baton::gateway
