// Reads one table of a TOML file key by key, with ranges. Keys that were not read are reported as
// unknown.
#pragma once

#include "schema/result.hpp"

// toml++ 3.3 asserts conditions on its input that its next lines check anyway ("[!]"). A mistake in
// nodes.toml is an error with its line; it must not abort the process.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// The only place where toml++ may throw. Errors: bad_config, with the line.
result<toml::table> parse_toml(std::string_view text, const std::string& origin);

class toml_section {
public:
  // `path`: the table's name in messages, "model" or "nodes[0]". `table` may be null: then every
  // key is absent.
  toml_section(const toml::table* table, std::string path, std::string origin)
      : table_(table), path_(std::move(path)), origin_(std::move(origin)) {}

  void read(std::string_view key, std::string& value);
  void read(std::string_view key, bool& value);
  void read(std::string_view key, std::vector<std::string>& value);
  // Integers within [least, most].
  template <class Int>
  void read(std::string_view key, Int& value, std::uint64_t least, std::uint64_t most) {
    auto number = read_integer(key, least, most);
    if (number)
      value = static_cast<Int>(*number);
  }
  // "512MiB", "2 GiB", or a number of bytes.
  void read_bytes(std::string_view key, std::uint64_t& value, std::uint64_t least,
                  std::uint64_t most);
  // The same, or "auto" for nothing.
  void read_bytes(std::string_view key, std::optional<std::uint64_t>& value, std::uint64_t least,
                  std::uint64_t most);
  // Seconds, as an integer or a fraction.
  void read_seconds(std::string_view key, std::chrono::milliseconds& value, double least,
                    double most);
  void read_seconds(std::string_view key, std::chrono::microseconds& value, double least,
                    double most);
  // An integer or a fraction.
  void read_number(std::string_view key, float& value, double least, double most);
  // A key that is read elsewhere (a sub-table).
  const toml::node* take(std::string_view key);

  // Returns the first error, or the first unknown key.
  result<void> finish();

private:
  std::optional<std::uint64_t> read_integer(std::string_view key, std::uint64_t least,
                                            std::uint64_t most);
  std::optional<double> read_double(std::string_view key, std::string_view what, double least,
                                    double most);
  const toml::node* find(std::string_view key);
  std::string full(std::string_view key) const; // "model.path"
  void set_error(errc code, std::string_view key, const toml::node* where, std::string text);

  const toml::table* table_;
  std::string path_;
  std::string origin_;
  std::vector<std::string> known_;
  std::optional<error> first_;
};

} // namespace baton::cluster
