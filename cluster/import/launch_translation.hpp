// Translates one start command of another server to keys of nodes.toml. Private to the import of
// start commands.
#pragma once

#include "cluster/import/launch_args.hpp"
#include "cluster/import/launch_import.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::cluster::start_line {

// The last part of the path, with characters that are invalid in a name replaced by a dash.
std::string name_of_model(const std::string& model);
// Parses "device=0,1" to 0 and 1; empty if the text has no numbers.
std::vector<std::uint32_t> gpus_named(std::string_view text);

class translation {
public:
  // Both outlive this object.
  translation(const launch_line& line, const import_wishes& wishes, const dialect& from)
      : line_(line), wishes_(wishes), from_(from) {}

  std::optional<error> read();
  result<imported_config> write();

private:
  void read_variables();
  void read_variable(const std::string& name, const std::string& value);
  void take(const parsed_option& parsed);
  void take_value(const option& o, const std::string& name, const std::string& value);
  void take_number(const option& o, const std::string& name, const std::string& value);
  void take_real(const option& o, const std::string& name, const std::string& value);
  void take_choice(const option& o, const std::string& name, const std::string& value);
  void take_dtype(const option& o, const std::string& name, const std::string& value);
  void take_port(const option& o, const std::string& name, const std::string& value);
  void take_collector(const option& o, const std::string& name, const std::string& value);
  void take_names(const std::string& name, std::vector<std::string> values);
  void take_speculative(const std::string& name, const std::string& value);
  void take_sampling(const std::string& name, const std::string& value);
  void place_on_devices();
  void mend();
  void write_model();
  void write_directory();
  void write_address();
  void write_address(std::string_view listener, const std::string& port);
  void set_aliases(const std::vector<std::string>& had);
  std::uint64_t number_setting(const char* to, std::uint64_t otherwise) const;
  // `to`: table.key. A later value replaces an earlier one.
  void set(std::string_view to, std::string value) {
    settings_[std::string(to)] = std::move(value);
  }
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  void refuse(const std::string& name, const std::string& why) {
    if (!first_)
      first_ = error{errc::bad_config, fmt::format("{} {}", name, why), name};
  }

  const launch_line& line_;
  const import_wishes& wishes_;
  const dialect& from_;
  std::map<std::string, std::string> settings_;
  std::string model_, directory_, name_, host_, port_, gpus_;
  std::vector<std::string> served_names_; // the first is the model's name
  std::vector<std::string> devices_;
  bool has_key_ = false, sleeps_ = false;
  imported_config out_;
  std::optional<error> first_;
};

} // namespace baton::cluster::start_line
