// Reads one schema into one grammar; json_schema.hpp lists the supported keywords. Its parts:
// references and combinations (json_schema.cpp), objects and arrays (schema_containers.cpp),
// strings and numbers (schema_scalars.cpp), members in other notations (schema_members.cpp).
#pragma once

#include "runtime/grammar/json_schema/decimal_range.hpp"
#include "runtime/grammar/json_schema/json_grammar.hpp"
#include "runtime/grammar/json_schema/json_schema.hpp"
#include "runtime/grammar/json_schema/json_value.hpp"
#include "runtime/grammar/json_schema/schema_merge.hpp"

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace baton::grammar {

class schema_reader {
public:
  schema_reader(grammar_builder& to, const json_value& root) : to_(to), json_(to), root_(root) {}

  result<expression> read();
  result<schema_members> read_members_of_root(const bare_text* texts);

private:
  // A location in the source, for errors: "#/properties/name".
  struct location {
    std::string path;
    std::size_t depth = 0;
    location at(std::string_view step) const {
      return {fmt::format("{}/{}", path, step), depth + 1};
    }
  };
  template <class... Args>
  error wrong(const location& where, fmt::format_string<Args...> text, Args&&... args) const {
    return fail(errc::invalid_value, "the schema is not valid at {}: {}", where.path,
                fmt::format(text, std::forward<Args>(args)...));
  }
  error unsupported(const location& where, std::string_view what) const {
    return fail(errc::unsupported_parameter, "{} is not supported in a schema, at {}", what,
                where.path);
  }

  // -- schema_members.cpp --
  result<json_value> object_of_root() const;
  result<expression> read_written(const json_value& schema, const location& where,
                                  const bare_text* texts);
  expression bare_string(std::string_view text);
  expression bare_string_of_length(std::uint32_t least, std::optional<std::uint32_t> most);
  expression any_string();
  expression any_value();
  character_set within_bare(const character_set& set) const;

  // -- json_schema.cpp --
  result<expression> read_pending(result<expression> out);
  result<expression> read(const json_value& schema, const location& where);
  result<void> check_keywords(const json_value& schema, const location& where) const;
  result<const json_value*> resolve(const std::string& reference) const;
  result<expression> read_reference(const json_value& schema, const json_value& reference,
                                    const location& where);
  result<expression> read_all(const json_value& schema, const json_value& all,
                              const location& where);
  result<expression> read_any(const json_value& schema, const std::string& keyword,
                              const location& where);
  result<expression> read_values(const json_value& schema, const location& where);
  result<expression> read_types(const json_value& schema, const location& where);
  result<expression> read_type(const std::string& type, const json_value& schema,
                               const location& where);
  result<json_value> joined(const json_value& a, const json_value& b) const;

  // -- schema_containers.cpp --
  struct member {
    expression name;
    expression value;
    bool is_required = false;
  };
  struct named_schema {
    std::string name;
    const json_value* schema = nullptr;
    bool is_required = false;
  };
  result<std::vector<named_schema>> named_members(const json_value& schema,
                                                  const location& where) const;
  result<expression> read_object(const json_value& schema, const location& where);
  result<std::vector<member>> read_members(const json_value& schema, const location& where);
  result<expression> read_name(const json_value& schema, const location& where);
  result<expression> read_map(const json_value& schema, expression value, const location& where);
  expression members_of(const std::vector<member>& all, std::optional<expression> additional);
  result<expression> read_array(const json_value& schema, const location& where);
  expression items_of(const std::vector<expression>& first, std::optional<expression> rest,
                      std::uint32_t least, std::optional<std::uint32_t> most);
  // The value of a numeric keyword, at least 0. Errors: invalid_value.
  result<std::optional<std::uint32_t>> count(const json_value& schema, std::string_view keyword,
                                             const location& where) const;

  // -- schema_scalars.cpp --
  result<expression> read_string(const json_value& schema, const location& where);
  result<expression> read_pattern(const std::string& pattern, bool is_search,
                                  const location& where);
  result<expression> read_number(const json_value& schema, bool is_integer, const location& where);
  result<decimal_range> read_range(const json_value& schema, const location& where) const;

  grammar_builder& to_;
  json_grammar json_;
  const json_value& root_;
  std::map<const json_value*, expression> referred_;
  std::deque<std::pair<const json_value*, rule_id>> pending_; // referenced, but not yet read
  std::size_t reads_ = 0;
  const bare_text* bare_ = nullptr; // set where a text is written bare
  character_set never_first_;       // of a bare text
};

} // namespace baton::grammar
