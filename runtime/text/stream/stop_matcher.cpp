// One Knuth-Morris-Pratt automaton per stop string, advanced byte by byte; see stop_matcher.hpp.
#include "runtime/text/stream/stop_matcher.hpp"

#include "runtime/text/unicode/utf8.hpp"

#include <algorithm>
#include <utility>

namespace baton::text {

void stop_matcher::pattern::advance(char byte) noexcept {
  while (matched > 0 && text[matched] != byte)
    matched = border[matched];
  if (text[matched] == byte)
    ++matched;
}

result<stop_matcher> stop_matcher::create(std::vector<std::string> stops, bool include_stop) {
  if (stops.size() > stop_strings_max)
    return fail_param(errc::invalid_value, "stop", "{} stop strings are more than {}", stops.size(),
                      stop_strings_max);
  stop_matcher made;
  made.include_stop_ = include_stop;
  for (std::string& stop : stops) {
    if (stop.empty())
      return fail_param(errc::invalid_value, "stop", "a stop string must not be empty");
    if (stop.size() > stop_bytes_max)
      return fail_param(errc::invalid_value, "stop", "a stop string of {} bytes is longer than {}",
                        stop.size(), stop_bytes_max);
    if (utf8_valid_prefix(stop) != stop.size())
      return fail_param(errc::invalid_value, "stop", "a stop string is not UTF-8");
    pattern next{std::move(stop), {}, 0};
    next.border.assign(next.text.size() + 1, 0);
    for (std::size_t n = 2; n <= next.text.size(); ++n) {
      std::uint32_t length = next.border[n - 1];
      while (length > 0 && next.text[length] != next.text[n - 1])
        length = next.border[length];
      next.border[n] = next.text[length] == next.text[n - 1] ? length + 1 : 0;
    }
    made.patterns_.push_back(std::move(next));
  }
  return made;
}

std::optional<std::size_t> stop_matcher::push(std::string_view text, std::string& out,
                                              bool may_end) {
  if (hit_)
    return hit_;
  if (patterns_.empty()) {
    out += text;
    return std::nullopt;
  }
  for (const char byte : text) {
    held_ += byte;
    std::size_t longest = 0;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      pattern& stop = patterns_[i];
      stop.advance(byte);
      const bool complete = stop.matched == stop.text.size();
      if (complete && !may_end)
        stop.matched = stop.border[stop.matched];
      else if (complete && (!hit_ || stop.text.size() > patterns_[*hit_].text.size()))
        hit_ = i;
      longest = std::max<std::size_t>(longest, stop.matched);
    }
    if (hit_) {
      out.append(held_, 0, held_.size() - (include_stop_ ? 0 : patterns_[*hit_].text.size()));
      held_.clear();
      return hit_;
    }
    out.append(held_, 0, held_.size() - longest);
    held_.erase(0, held_.size() - longest);
  }
  return std::nullopt;
}

void stop_matcher::finish(std::string& out) {
  out += held_;
  held_.clear();
  for (pattern& stop : patterns_)
    stop.matched = 0;
}

} // namespace baton::text
