// Which tensors a worker model takes and gives: `inputs` and `outputs` of [[workers]].
#pragma once

#include "cluster/config/toml_section.hpp"
#include "gateway/state/worker_facts.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

inline constexpr std::uint32_t worker_max_batch_size = 1 << 20; // more than a message holds
inline constexpr std::size_t tensor_name_bytes_max = 256;       // as a client may name one

// Of a tensor's name, which is not fit to be shown if there is one; empty: nothing.
std::string fault_of_name(std::string_view name);
// What is wrong with it, in words that begin with the key; empty: nothing.
std::string fault_of(const gateway::worker_tensor& t);
// Of all tensors of one side together; empty: nothing.
std::string fault_of(const std::vector<gateway::worker_tensor>& all);

// `node`: an array of { name, datatype, shape, optional }, or null; `path` is its name in messages.
// Errors: bad_config, unknown_key.
result<void> read_tensors(const toml::node* node, const std::string& path,
                          const std::string& origin, std::vector<gateway::worker_tensor>& into);

} // namespace baton::cluster
