#include "gateway/torchserve_form.hpp"

#include "gateway/http_header.hpp"

#include <algorithm>
#include <optional>

namespace baton::gateway {
namespace {

constexpr std::size_t parts_max = 32;
constexpr std::size_t boundary_bytes_max = 70; // RFC 2046, section 5.1.1

// Of several the first; "data" goes before "body".
class input_fields {
public:
  void take(std::string_view name, std::string value, std::string_view content_type = {}) {
    auto& field = name == "data" ? data_ : body_;
    if ((name == "data" || name == "body") && !field) {
      field.emplace(form_input{std::move(value), std::string(content_type), {}});
    } else {
      skip(name);
    }
  }
  void skip(std::string_view name) {
    if (other_.empty()) {
      other_ = name.empty() ? std::string_view("?") : name;
    }
  }
  result<form_input> input() && {
    if (!data_ && !body_) {
      return fail(errc::invalid_request, "the form has no field 'data'");
    }
    if (data_ && body_) {
      skip("body");
    }
    auto& field = data_ ? *data_ : *body_;
    field.other = std::move(other_);
    return std::move(field);
  }

private:
  std::optional<form_input> data_, body_;
  std::string other_;
};

// The value of a parameter of a header, quoted or not: name="data".
std::string_view parameter_of(std::string_view header, std::string_view name) {
  const auto folded = lower(header);
  for (std::size_t at = folded.find(name); at != folded.npos; at = folded.find(name, at + 1)) {
    const bool is_whole = at > 0 && (folded[at - 1] == ' ' || folded[at - 1] == ';');
    auto value = header.substr(at + name.size());
    if (!is_whole || !value.starts_with('=')) {
      continue;
    }
    value.remove_prefix(1);
    if (value.starts_with('"')) {
      value.remove_prefix(1);
      return value.substr(0, value.find('"'));
    }
    return value.substr(0, value.find_first_of("; \t\r\n"));
  }
  return {};
}

// A part without its boundaries: header lines, an empty one, the value.
void take_part(std::string_view part, input_fields& fields) {
  const auto end = part.find("\r\n\r\n");
  if (end == part.npos) {
    return;
  }
  auto head = part.substr(0, end);
  std::string_view disposition, content_type;
  while (!head.empty()) {
    const auto line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(line.size() + 2, head.size()));
    const auto value = line.substr(std::min(line.find(':') + 1, line.size()));
    if (lower(line).starts_with("content-disposition:")) {
      disposition = line;
    } else if (lower(line).starts_with("content-type:")) {
      content_type = value.substr(std::min(value.find_first_not_of(" \t"), value.size()));
    }
  }
  if (!disposition.empty()) {
    fields.take(parameter_of(disposition, "name"), std::string(part.substr(end + 4)), content_type);
  }
}

} // namespace

result<form_input> input_of_form(std::string_view form) {
  input_fields fields;
  for (std::size_t begin = 0; begin < form.size();) {
    const auto end = std::min(form.find('&', begin), form.size());
    std::string pair(form.substr(begin, end - begin));
    begin = end + 1;
    const auto equals = pair.find('=');
    const auto name = pair.substr(0, equals);
    if (equals == pair.npos || (name != "data" && name != "body")) {
      fields.skip(name);
      continue;
    }
    std::replace(pair.begin(), pair.end(), '+', ' ');
    auto value = percent_decoded(std::string_view(pair).substr(equals + 1));
    if (!value) {
      return fail(errc::invalid_request, "a '%' in the form is not followed by two hex digits");
    }
    fields.take(name, *std::move(value));
  }
  return std::move(fields).input();
}

result<form_input> input_of_parts(std::string_view content_type, std::string_view body) {
  const auto boundary = parameter_of(content_type, "boundary");
  if (boundary.empty() || boundary.size() > boundary_bytes_max) {
    return fail(errc::invalid_request, "multipart/form-data without a boundary");
  }
  const auto mark = "\r\n--" + std::string(boundary);
  input_fields fields;
  // The first one begins the body: there is no line before it to end.
  auto rest = body.starts_with(std::string_view(mark).substr(2)) ? body.substr(mark.size() - 2)
                                                                 : std::string_view();
  for (std::size_t i = 0; i < parts_max && rest.starts_with("\r\n"); ++i) {
    const auto end = rest.find(mark, 2);
    if (end == rest.npos) {
      return fail(errc::invalid_request, "the last part of the form has no end");
    }
    take_part(rest.substr(2, end - 2), fields);
    rest.remove_prefix(end + mark.size());
  }
  return std::move(fields).input();
}

} // namespace baton::gateway
