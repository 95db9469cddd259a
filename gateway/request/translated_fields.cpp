#include "gateway/request/translated_fields.hpp"

namespace baton::gateway {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

} // namespace

error with_renamed_paths(std::span<const path_rename> renames, error e) {
  for (const auto& [theirs, ours] : renames) {
    replace_all(e.message, theirs, ours);
    replace_all(e.param, theirs, ours);
  }
  return e;
}

} // namespace baton::gateway
