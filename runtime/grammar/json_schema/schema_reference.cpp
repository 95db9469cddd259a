#include "runtime/grammar/json_schema/schema_reference.hpp"

#include "runtime/grammar/automata/text_reader.hpp"

#include <algorithm>

namespace baton::grammar {
namespace {

// Decodes a step of a JSON pointer in a URI fragment.
std::string unescaped(std::string_view step) {
  std::string out;
  for (std::size_t i = 0; i < step.size(); ++i) {
    text_reader code(step.substr(std::min(i + 1, step.size())));
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      out += step[++i] == '0' ? '~' : '/';
    } else if (const auto byte = step[i] == '%' ? code.number(16, 2, 2) : std::nullopt) {
      out += static_cast<char>(*byte);
      i += 2;
    } else {
      out += step[i];
    }
  }
  return out;
}

} // namespace

result<const json_value*> find_reference(const json_value& root, const std::string& reference) {
  if (!reference.starts_with('#'))
    return fail(errc::unsupported_parameter,
                "a '$ref' to another document ('{}') is not supported: only '#/...'",
                reference.substr(0, 64));
  const json_value* at = &root;
  std::string_view rest = std::string_view(reference).substr(1);
  while (at && !rest.empty()) {
    const auto end = std::min(rest.find('/', 1), rest.size());
    const auto step = rest[0] == '/' ? unescaped(rest.substr(1, end - 1)) : std::string();
    std::size_t index = 0;
    const bool is_index = !step.empty() && step.size() < 6 &&
                          step.find_first_not_of("0123456789") == std::string::npos;
    for (const char c : is_index ? step : std::string())
      index = index * 10 + static_cast<std::size_t>(c - '0');
    if (rest[0] != '/')
      at = nullptr;
    else if (at->is_array())
      at = is_index && index < at->items.size() ? &at->items[index] : nullptr;
    else
      at = at->find(step);
    rest.remove_prefix(end);
  }
  if (!at)
    return fail(errc::invalid_value, "the schema has nothing at '$ref' '{}'",
                reference.substr(0, 64));
  return at;
}

} // namespace baton::grammar
