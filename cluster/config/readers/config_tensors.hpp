// The tensors of a worker model: `inputs` and `outputs` of [[workers]].
#pragma once

#include "cluster/formats/toml_section.hpp"
#include "gateway/state/worker_facts.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr std::uint32_t worker_max_batch_size = 1 << 20; // more than fits into a message
inline constexpr std::size_t tensor_name_bytes_max = 256;       // of a name from a client

// The error in a tensor's name, which must then not be displayed; empty: valid.
std::string fault_of_name(std::string_view name);
// The error in a tensor, as text that starts with the key; empty: valid.
std::string fault_of(const gateway::worker_tensor& t);
// The error in all tensors of one side together; empty: valid.
std::string fault_of(const std::vector<gateway::worker_tensor>& all);

// `node`: an array of { name, datatype, shape, optional }, or null; `path`: its name in messages.
// Errors: bad_config, unknown_key.
result<void> read_tensors(const toml::node* node, const std::string& path,
                          const std::string& origin, std::vector<gateway::worker_tensor>& into);

} // namespace baton::cluster
