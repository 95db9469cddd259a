#include "gateway/api/torchserve/torchserve_form.hpp"

#include "gateway/api/torchserve/torchserve_inputs.hpp"
#include "gateway/base/http_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::size_t fields_max = 32;
constexpr std::size_t boundary_bytes_max = 70; // RFC 2046, section 5.1.1

// The value of a header's parameter, quoted or not: name="data".
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

// Parses a part without its boundaries: header lines, an empty line, the value.
void take_part(std::string_view part, std::vector<form_field>& fields) {
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
    fields.push_back({std::string(parameter_of(disposition, "name")),
                      std::string(part.substr(end + 4)), std::string(content_type)});
  }
}

error too_many_fields() {
  return fail(errc::invalid_request, "the form has more than {} fields", fields_max);
}

// "data" has priority over "body"; the first of several fields counts.
result<form_input> chosen_of(std::vector<form_field> fields) {
  auto found = fields.end();
  for (const std::string_view wanted : {"data", "body"}) {
    if (found == fields.end()) {
      found = std::find_if(fields.begin(), fields.end(),
                           [&](const form_field& f) { return f.name == wanted; });
    }
  }
  if (found == fields.end()) {
    return no_data_in_form();
  }
  form_input out{std::move(found->value), std::move(found->content_type), {}};
  const auto other = found == fields.begin() ? std::next(found) : fields.begin();
  if (other != fields.end()) {
    out.other = other->name.empty() ? "?" : other->name;
  }
  return out;
}

// Escapes a field's name as browsers do.
std::string quoted_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '"') {
      out += "%22";
    } else if (c == '\r') {
      out += "%0D";
    } else if (c == '\n') {
      out += "%0A";
    } else {
      out += c;
    }
  }
  return out;
}

} // namespace

error no_data_in_form() {
  return fail(errc::invalid_request, "the form has no field 'data': send data=TEXT, or the text "
                                     "alone with Content-Type: text/plain");
}

result<std::vector<form_field>> fields_of_form(std::string_view form) {
  std::vector<form_field> fields;
  for (std::size_t begin = 0; begin < form.size();) {
    const auto end = std::min(form.find('&', begin), form.size());
    std::string pair(form.substr(begin, end - begin));
    begin = end + 1;
    const auto equals = pair.find('=');
    if (equals == pair.npos) {
      continue; // curl -d labels any text a form
    }
    std::replace(pair.begin(), pair.end(), '+', ' ');
    auto name = percent_decoded(std::string_view(pair).substr(0, equals));
    auto value = percent_decoded(std::string_view(pair).substr(equals + 1));
    if (!name || !value) {
      return fail(errc::invalid_request, "a '%' in the form is not followed by two hex digits");
    }
    if (fields.size() == fields_max) {
      return too_many_fields();
    }
    fields.push_back({*std::move(name), *std::move(value), {}});
  }
  return fields;
}

result<std::vector<form_field>> fields_of_parts(std::string_view content_type,
                                                std::string_view body) {
  const auto boundary = parameter_of(content_type, "boundary");
  if (boundary.empty() || boundary.size() > boundary_bytes_max) {
    return fail(errc::invalid_request, "multipart/form-data without a boundary");
  }
  const auto mark = "\r\n--" + std::string(boundary);
  std::vector<form_field> fields;
  // The first boundary starts the body, without a line end before it.
  auto rest = body.starts_with(std::string_view(mark).substr(2)) ? body.substr(mark.size() - 2)
                                                                 : std::string_view();
  while (rest.starts_with("\r\n")) {
    const auto end = rest.find(mark, 2);
    if (end == rest.npos) {
      return fail(errc::invalid_request, "the last part of the form has no end");
    }
    if (fields.size() == fields_max) {
      return too_many_fields();
    }
    take_part(rest.substr(2, end - 2), fields);
    rest.remove_prefix(end + mark.size());
  }
  return fields;
}

result<form_input> input_of_form(std::string_view form) {
  auto fields = fields_of_form(form);
  return fields ? chosen_of(*std::move(fields)) : result<form_input>(fields.error());
}

result<form_input> input_of_parts(std::string_view content_type, std::string_view body) {
  auto fields = fields_of_parts(content_type, body);
  return fields ? chosen_of(*std::move(fields)) : result<form_input>(fields.error());
}

form_body parts_of(const std::vector<form_field>& fields) {
  std::string boundary;
  const auto is_within = [&](const form_field& f) {
    return f.value.find("--" + boundary) != std::string::npos;
  };
  for (std::uint32_t i = 0;
       boundary.empty() || std::any_of(fields.begin(), fields.end(), is_within); ++i) {
    boundary = fmt::format("baton-{}", i);
  }
  std::string text;
  for (const auto& field : fields) {
    text += fmt::format("--{}\r\nContent-Disposition: form-data; name=\"{}\"\r\n", boundary,
                        quoted_name(field.name));
    if (!field.content_type.empty()) {
      text += fmt::format("Content-Type: {}\r\n", field.content_type);
    }
    text += "\r\n" + field.value + "\r\n";
  }
  text += fmt::format("--{}--\r\n", boundary);
  return {"multipart/form-data; boundary=" + boundary, std::move(text)};
}

} // namespace baton::gateway
