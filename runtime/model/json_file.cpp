#include "runtime/model/json_file.hpp"

#include "runtime/model/mapped_file.hpp"

#include <set>
#include <string>
#include <vector>

namespace baton::model {
namespace {

// Detects input that the parser would silently accept: any depth, and duplicate member names (it
// keeps the last).
class parser_watch {
public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > json_depth_max) {
      problem_ = fmt::format("nested more than {} levels deep", json_depth_max);
      return false;
    }
    if (event == json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key && problem_.empty()) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open_.back().insert(name).second) {
        problem_ = fmt::format("an object has the name '{}' twice", name);
      }
    }
    return true;
  }
  const std::string& problem() const noexcept { return problem_; }

private:
  std::vector<std::set<std::string>> open_; // names in the enclosing objects
  std::string problem_;
};

// Removes the library's own prefix "[json.exception.parse_error.101] ".
std::string message_of(const json::exception& e) {
  const std::string text = e.what();
  const auto at = text.find("] ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

} // namespace

result<json> parse_json_object(std::string_view text, std::string_view origin) {
  parser_watch watch;
  try {
    auto parsed = json::parse(text, [&watch](int depth, json::parse_event_t event, json& value) {
      return watch(depth, event, value);
    });
    if (!watch.problem().empty()) {
      return fail(errc::bad_model_file, "{}: {}", origin, watch.problem());
    }
    if (!parsed.is_object()) {
      return fail(errc::bad_model_file, "{}: expected an object, found {}", origin,
                  parsed.type_name());
    }
    return parsed;
  } catch (const json::exception& e) {
    return fail(errc::bad_model_file, "{}: not valid JSON: {}", origin, message_of(e));
  }
}

result<json> read_json_object(const std::filesystem::path& path) {
  const auto file = mapped_file::open(path);
  if (!file) {
    return file.error();
  }
  if (file->size_bytes() > json_bytes_max) {
    return fail(errc::bad_model_file, "{}: {} bytes, more than {}", path.string(),
                file->size_bytes(), json_bytes_max);
  }
  std::string text(file->size_bytes(), '\0');
  if (auto r = file->read_at(0, std::as_writable_bytes(std::span(text))); !r) {
    return fail(r.error().code, "{}: {}", path.string(), r.error().message);
  }
  return parse_json_object(text, path.string());
}

const json* member_of(const json& object, std::string_view name) {
  if (!object.is_object()) {
    return nullptr;
  }
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const json& object, std::string_view name, std::string_view otherwise) {
  const auto* value = member_of(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>()
                                                : std::string(otherwise);
}

bool flag_of(const json& object, std::string_view name, bool otherwise) {
  const auto* value = member_of(object, name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

} // namespace baton::model
