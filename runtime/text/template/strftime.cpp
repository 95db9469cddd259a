// Dates as text.
#include "runtime/text/template/strftime.hpp"

#include <array>

namespace baton::text::jinja {

namespace {

constexpr std::array<std::string_view, 7> days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                  "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

struct civil_time {
  int year;
  unsigned month;
  unsigned day;
  unsigned weekday; // 0 is Sunday
  int day_of_year;
  int hour;
  int minute;
  int second;
};

civil_time civil(std::chrono::sys_seconds time) {
  using namespace std::chrono;
  const sys_days day = floor<std::chrono::days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  const sys_days new_year(date.year() / January / 1);
  return {static_cast<int>(date.year()),
          static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()),
          weekday(day).c_encoding(),
          static_cast<int>((day - new_year).count()) + 1,
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count())};
}

// Empty for an unknown directive. `is_short`: no leading zero (%-d).
std::string directive(char name, bool is_short, const civil_time& t) {
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  const auto number = [&](auto n) {
    return is_short ? fmt::format("{}", n) : fmt::format("{:02}", n);
  };
  switch (name) {
  case 'a':
    return std::string(days[t.weekday].substr(0, 3));
  case 'A':
    return std::string(days[t.weekday]);
  case 'b':
    return std::string(months[t.month - 1].substr(0, 3));
  case 'B':
    return std::string(months[t.month - 1]);
  case 'd':
    return number(t.day);
  case 'e':
    return fmt::format("{:2}", t.day);
  case 'F':
    return fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day);
  case 'H':
    return number(t.hour);
  case 'I':
    return number(hour12);
  case 'j':
    return is_short ? fmt::format("{}", t.day_of_year) : fmt::format("{:03}", t.day_of_year);
  case 'm':
    return number(t.month);
  case 'M':
    return number(t.minute);
  case 'p':
    return t.hour < 12 ? "AM" : "PM";
  case 'S':
    return number(t.second);
  case 'T':
    return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
  case 'y':
    return number(t.year % 100);
  case 'Y':
    return fmt::format("{}", t.year);
  case '%':
    return "%";
  default:
    return {};
  }
}

} // namespace

maybe format_time(interpreter& run, const marked_text& format, std::chrono::sys_seconds time) {
  const civil_time t = civil(time);
  const std::string& text = format.text();
  marked_text out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t percent = std::min(text.find('%', at), text.size());
    if (!run.append(out, format, at, percent)) {
      return std::nullopt;
    }
    if (percent == text.size()) {
      break;
    }
    const bool is_short = percent + 1 < text.size() && text[percent + 1] == '-';
    const std::size_t name_at = percent + (is_short ? 2 : 1);
    const std::string part =
        name_at < text.size() ? directive(text[name_at], is_short, t) : std::string();
    if (part.empty()) {
      return run.fail("strftime_now does not know the format '{}'",
                      text.substr(percent, name_at - percent + 1));
    }
    if (!run.append_trusted(out, part)) {
      return std::nullopt;
    }
    at = name_at + 1;
  }
  return run.make_text(std::move(out));
}

} // namespace baton::text::jinja
