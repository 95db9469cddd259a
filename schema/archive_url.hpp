// How clients name an archive that a model store registers: a name in it, or a URL. Beside the
// messages that carry it (served_models.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace baton {

inline constexpr std::size_t archive_url_bytes_max = 8192; // a signed one has some 2000

// Of a scheme that is fetched; what has another is no URL here, but a name that nothing has.
constexpr bool is_archive_url(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 3> schemes{"http://", "https://", "file://"};
  for (const auto scheme : schemes) {
    bool is_it = text.size() > scheme.size();
    for (std::size_t i = 0; is_it && i < scheme.size(); ++i) {
      const char c = text[i];
      is_it = (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) == scheme[i];
    }
    if (is_it)
      return true;
  }
  return false;
}

// The last part of its path: the name of its file in the store. May be none of an archive's.
constexpr std::string_view file_of_url(std::string_view url) noexcept {
  url = url.substr(0, url.find_first_of("?#"));
  return url.substr(url.rfind('/') + 1);
}

} // namespace baton
