#include "gateway/base/log_format.hpp"

#include <spdlog/pattern_formatter.h>

#include <iterator>
#include <string_view>

namespace baton::gateway {
namespace {

constexpr unsigned char first_printable = 0x20, delete_character = 0x7f;

class message_on_one_line final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& m, const std::tm&,
              spdlog::memory_buf_t& to) override {
    for (const char c : std::string_view(m.payload.data(), m.payload.size())) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '\n')
        to.append(std::string_view("\\n"));
      else if (byte < first_printable || byte == delete_character)
        fmt::format_to(std::back_inserter(to), "\\x{:02x}", byte);
      else
        to.push_back(c);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<message_on_one_line>();
  }
};

} // namespace

std::unique_ptr<spdlog::formatter> log_format(bool has_colors) {
  auto made = std::make_unique<spdlog::pattern_formatter>();
  made->add_flag<message_on_one_line>('*');
  made->set_pattern(has_colors ? "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*" : "%Y-%m-%dT%H:%M:%S.%e %l %*");
  return made;
}

} // namespace baton::gateway
