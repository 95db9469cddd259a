// Fields of a config.pbtxt that have no effect here, and the reason for each. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

enum class triton_reader : unsigned char { worker, language_model };

// One line for each such field in `config`, in the order of the table. `config` comes from
// parse_pbtxt. `read`: top-level fields that the model's backend reads itself.
std::vector<std::string> triton_left_out(const nlohmann::ordered_json& config, triton_reader by,
                                         std::span<const std::string_view> read = {});

} // namespace baton::cluster
