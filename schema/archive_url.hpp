// How clients name an archive that a model store registers: by file name or by URL. Kept beside the
// messages that carry it (served_models.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace baton {

inline constexpr std::size_t archive_url_bytes_max = 8192; // a signed URL has about 2000

// Whether the scheme can be fetched. Text with another scheme is a name that does not exist.
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

// The last part of the URL's path: its file name in the store. It may not be a valid archive name.
constexpr std::string_view file_of_url(std::string_view url) noexcept {
  url = url.substr(0, url.find_first_of("?#"));
  return url.substr(url.rfind('/') + 1);
}

} // namespace baton
