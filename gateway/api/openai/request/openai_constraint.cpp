#include "gateway/api/openai/request/openai_constraint.hpp"

#include "gateway/api/openai/request/openai_fields.hpp"
#include "gateway/base/json_text.hpp"

namespace baton::gateway {
namespace {

constexpr std::size_t schema_name_bytes_max = 256; // of a schema; OpenAI: 64

class constraint_reader {
public:
  constraint_reader(field_reader& fields, std::string_view source)
      : fields_(fields), source_(source) {}

  asked_constraint read() {
    read_response_format();
    read_structured_outputs();
    read_schema(fields_, "guided_json", {"guided_json"}, "guided_json");
    read_text(fields_, "guided_regex", constraint_kind::regex, "guided_regex");
    read_choice(fields_, "guided_choice", {"guided_choice"}, "guided_choice");
    read_text(fields_, "guided_grammar", constraint_kind::grammar, "guided_grammar");
    read_tags(fields_, "structural_tag", {"structural_tag"}, "structural_tag");
    return std::move(asked_);
  }

private:
  using path = std::vector<std::string_view>;

  void take(constraint c, const char* field) {
    if (asked_.is) {
      fields_.refuse(errc::invalid_value, field,
                     fmt::format("'{}' and '{}' both constrain the answer: send one "
                                 "of them",
                                 asked_.field, field));
    }
    asked_ = {std::move(c), field};
  }

  void read_response_format() {
    fields_.object("response_format", [this](field_reader& format) {
      const auto type = format.text("type", {}, schema_name_bytes_max);
      if (type == "json" || (type == "json_object" && format.find("value"))) { // TGI's names
        format.require("value");
        read_schema(format, "value", {"response_format", "value"}, "response_format");
      } else if (type == "regex") {
        format.require("value");
        read_text(format, "value", constraint_kind::regex, "response_format");
      } else if (type == "json_object") {
        take({constraint_kind::json_object, {}}, "response_format");
      } else if (type == "json_schema") {
        read_named_schema(format);
      } else if (type == "structural_tag") {
        for (const auto* member : {"format", "structures", "triggers"}) {
          format.find(member); // read_structural_tag reads them
        }
        take_raw(format, {"response_format"}, constraint_kind::tags, "response_format");
      } else if (type != "text" && !format.has_failed()) {
        format.refuse(errc::invalid_value, "type",
                      "'response_format.type' must be 'text', 'json_object', 'json_schema' or "
                      "'structural_tag'");
      }
    });
  }

  // Name and description have no effect. The schema is enforced with and without `strict`.
  void read_named_schema(field_reader& format) {
    format.require("json_schema");
    format.object("json_schema", [this](field_reader& inner) {
      inner.require("name");
      inner.text("name", {}, schema_name_bytes_max);
      inner.text("description", {}, description_bytes_max);
      inner.boolean("strict", true);
      inner.require("schema");
      read_schema(inner, "schema", {"response_format", "json_schema", "schema"}, "response_format");
    });
  }

  void read_structured_outputs() {
    static constexpr unsupported_field unsupported[] = {
        {"whitespace_pattern", ""},
        {"disable_fallback", "false"},
        {"disable_any_whitespace", "false"},
        {"disable_additional_properties", "false"},
    };
    constexpr const char* field = "structured_outputs";
    const auto read = [this](field_reader& inner) {
      read_schema(inner, "json", {field, "json"}, field);
      read_text(inner, "regex", constraint_kind::regex, field);
      read_choice(inner, "choice", {field, "choice"}, field);
      read_text(inner, "grammar", constraint_kind::grammar, field);
      read_tags(inner, "structural_tag", {field, "structural_tag"}, field);
      if (inner.boolean("json_object", false)) {
        take({constraint_kind::json_object, {}}, field);
      }
      if (!asked_.is && !inner.has_failed()) {
        inner.refuse(errc::invalid_value, "json",
                     "'structured_outputs' needs one of 'json', 'regex', 'choice', 'grammar', "
                     "'structural_tag' and 'json_object'");
      }
    };
    fields_.object(field, read, unsupported);
  }

  void read_schema(field_reader& from, const char* name, const path& where, const char* field) {
    if (auto schema = gateway::read_schema(from, name, where, source_)) {
      take(*std::move(schema), field);
    }
  }

  void read_text(field_reader& from, const char* name, constraint_kind kind, const char* field) {
    const auto* value = from.find(name);
    if (!value) {
      return;
    }
    if (!value->is_string()) {
      return from.refuse_type(name, "a string", *value);
    }
    take({kind, value->get<std::string>()}, field);
  }

  void read_choice(field_reader& from, const char* name, const path& where, const char* field) {
    const auto* value = from.find(name);
    if (!value) {
      return;
    }
    if (!value->is_array()) {
      return from.refuse_type(name, "an array of strings", *value);
    }
    take_raw(from, where, constraint_kind::choice, field);
  }

  // As JSON, or as the text of JSON, as vLLM has it.
  void read_tags(field_reader& from, const char* name, const path& where, const char* field) {
    const auto* value = from.find(name);
    if (!value) {
      return;
    }
    if (value->is_string()) {
      return take({constraint_kind::tags, value->get<std::string>()}, field);
    }
    if (!value->is_object()) {
      return from.refuse_type(name, "a structural tag", *value);
    }
    take_raw(from, where, constraint_kind::tags, field);
  }

  // The value as the client wrote it: members keep their order.
  void take_raw(field_reader& from, const path& where, constraint_kind kind, const char* field) {
    auto text = raw_member(source_, where);
    if (!text) {
      return from.refuse(text.error());
    }
    take({kind, *std::move(text)}, field);
  }

  field_reader& fields_;
  std::string_view source_;
  asked_constraint asked_;
};

} // namespace

std::optional<constraint> read_schema(field_reader& from, const char* name,
                                      std::span<const std::string_view> where,
                                      std::string_view source) {
  const auto* value = from.find(name);
  if (!value) {
    return std::nullopt;
  }
  if (value->is_string()) {
    return constraint{constraint_kind::json_schema, value->get<std::string>()};
  }
  if (!value->is_object() && !value->is_boolean()) {
    from.refuse_type(name, "a JSON schema", *value);
    return std::nullopt;
  }
  auto text = raw_member(source, where);
  if (!text) {
    from.refuse(text.error());
    return std::nullopt;
  }
  return constraint{constraint_kind::json_schema, *std::move(text)};
}

asked_constraint read_constraint(field_reader& fields, std::string_view source) {
  return constraint_reader(fields, source).read();
}

} // namespace baton::gateway
