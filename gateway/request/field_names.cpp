#include "gateway/request/field_names.hpp"

namespace baton::gateway {
namespace {

// "messages", "messages[2].role", "structured_outputs.regex"
bool is_of_field(std::string_view param, std::string_view name) noexcept {
  return param.starts_with(name) &&
         (param.size() == name.size() || param[name.size()] == '[' || param[name.size()] == '.');
}

} // namespace

// One pass: an inserted name is not replaced again, because it may be another field's name here.
error in_client_terms(const field_names& names, error e) {
  for (const auto& name : names) {
    if (is_of_field(e.param, name.ours)) {
      e.param.replace(0, name.ours.size(), name.theirs);
      break;
    }
  }
  for (std::size_t at = e.message.find('\''); at != e.message.npos;
       at = e.message.find('\'', at + 1)) {
    const auto rest = std::string_view(e.message).substr(at + 1);
    for (const auto& name : names) {
      const bool is_quoted = rest.size() > name.ours.size() && rest.starts_with(name.ours) &&
                             rest[name.ours.size()] == '\'';
      if (is_quoted) {
        e.message.replace(at + 1, name.ours.size(), name.theirs);
        at += name.theirs.size() + 1; // its closing quote
        break;
      }
    }
  }
  return e;
}

} // namespace baton::gateway
