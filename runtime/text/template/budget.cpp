// The interpreter's budget: every step, byte and container goes through here.
#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/values/unicode.hpp"

namespace baton::text::jinja {

namespace {

// Messages may quote user data; an error is one log line and a JSON body.
constexpr std::size_t message_bytes_max = 1000;

// A text node takes about 150 bytes besides its characters, a map entry about 100.
constexpr std::size_t steps_per_text = 4;
constexpr std::size_t steps_per_entry = 4;

} // namespace

void interpreter::record_failure(std::string message) {
  if (failure_) {
    return;
  }
  if (message.size() > message_bytes_max) {
    std::size_t keep = 0;
    while (keep < message_bytes_max) {
      keep += code_point_at(message, keep).bytes;
    }
    message.resize(keep);
    message += "...";
  }
  failure_ = baton::fail(errc::template_failed, "{} (template line {})", message, line_);
}

bool interpreter::spend(std::size_t steps) {
  if (failure_) {
    return false;
  }
  if (steps > limits_.steps_max - steps_) {
    return refuse("the template takes more than {} steps", limits_.steps_max);
  }
  steps_ += steps;
  return true;
}

bool interpreter::check_text_size(std::size_t bytes) {
  return bytes <= limits_.text_bytes_max ||
         refuse("the template makes a text of more than {} bytes", limits_.text_bytes_max);
}

maybe interpreter::make_text(marked_text text) {
  if (!check_text_size(text.size()) || !spend(steps_per_text + text.size() / 32)) {
    return std::nullopt;
  }
  return value::marked(std::move(text));
}

maybe interpreter::make_list(std::vector<value> items, bool is_tuple) {
  if (!spend(1 + items.size())) {
    return std::nullopt;
  }
  value list = is_tuple ? value::tuple(std::move(items)) : value::list(std::move(items));
  if (list.depth() > value::depth_max) {
    return fail("values nest deeper than {}", value::depth_max);
  }
  return list;
}

maybe interpreter::make_map(std::vector<map_entry> entries) {
  for (const map_entry& e : entries) {
    const bool is_scalar = e.key.type() < value_kind::list && !e.key.is(value_kind::undefined);
    if (!is_scalar) {
      return fail("a {} cannot be the key of a dict", name_of(e.key.type()));
    }
    const std::size_t bytes = e.key.is(value_kind::string) ? e.key.as_text().size() : 0;
    if (!spend(steps_per_entry + bytes / 32)) {
      return std::nullopt;
    }
  }
  value map = value::map(std::move(entries));
  if (map.depth() > value::depth_max) {
    return fail("values nest deeper than {}", value::depth_max);
  }
  return map;
}

value interpreter::make_undefined(std::string about) {
  return spend(steps_per_text) ? value::undefined(std::move(about)) : value();
}

bool interpreter::append(marked_text& out, const marked_text& piece, std::size_t begin,
                         std::size_t end) {
  if (!check_text_size(out.size() + (end - begin)) || !spend_bytes(end - begin)) {
    return false;
  }
  out.append(piece, begin, end);
  return true;
}

bool interpreter::append_trusted(marked_text& out, std::string_view piece) {
  if (!check_text_size(out.size() + piece.size()) || !spend_bytes(piece.size())) {
    return false;
  }
  out.append_trusted(piece);
  return true;
}

bool interpreter::append_repeated(marked_text& out, const marked_text& piece, std::int64_t times) {
  if (times <= 0 || piece.empty()) {
    return true;
  }
  if (static_cast<std::uint64_t>(times) > limits_.text_bytes_max / piece.size()) {
    return check_text_size(limits_.text_bytes_max + 1);
  }
  for (std::int64_t i = 0; i < times; ++i) {
    if (!append(out, piece)) {
      return false;
    }
  }
  return true;
}

namespace_object* interpreter::new_namespace() {
  return spend(steps_per_text) ? &namespaces_.emplace_back() : nullptr;
}

} // namespace baton::text::jinja
