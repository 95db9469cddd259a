// The inputs and outputs that a model file declares, whatever its format.
#pragma once

#include "cluster/config/readers/config_tensors.hpp"
#include "gateway/state/worker_facts.hpp"
#include "schema/limits.hpp"
#include "schema/result.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::cluster {

struct model_signature {
  std::vector<gateway::worker_tensor> inputs, outputs; // -1: any size
};

// A tensor as the file declares it.
struct file_tensor {
  std::string name;          // empty: absent, or longer than a tensor's name may be
  std::uint64_t type = 0;    // the file format's type number
  std::string_view datatype; // empty: the type has no datatype
  std::optional<std::vector<std::int64_t>> shape; // none: the file does not declare it
};

// `kind` is input or output. Errors: bad_config.
template <class Tensors>
result<std::vector<gateway::worker_tensor>> declared_tensors(const Tensors& from,
                                                             std::string_view kind) {
  if (from.size() > limits::tensors_max)
    return fail(errc::bad_config, "it has {} {}s, at most {} are served", from.size(), kind,
                limits::tensors_max);
  std::vector<gateway::worker_tensor> to;
  for (const file_tensor& v : from) {
    if (const auto fault = fault_of_name(v.name); !fault.empty())
      return fail(errc::bad_config, "its {} {}: {}", kind, to.size() + 1, fault);
    if (v.datatype.empty())
      return fail(errc::bad_config,
                  "its {} '{}' has the type {}, for which there is no datatype: config.pbtxt must "
                  "declare it",
                  kind, v.name, v.type);
    if (!v.shape)
      return fail(errc::bad_config,
                  "its {} '{}' has no shape in the file: config.pbtxt must declare it", kind,
                  v.name);
    to.push_back({v.name, std::string(v.datatype), *v.shape, false});
  }
  return to;
}

// `read`: takes a stream and its size. Errors: io_failed (not a regular file, or unreadable), and
// those of `read`, with the file's name. A file that is not regular is not opened.
template <class Read>
result<model_signature> read_signature_file(const std::filesystem::path& file, Read read) {
  std::error_code ec;
  if (!std::filesystem::is_regular_file(file, ec)) // opening a pipe could block
    return fail(errc::io_failed, "{} is no file that can be read", file.string());
  const auto size = std::filesystem::file_size(file, ec);
  std::ifstream in(file, std::ios::binary);
  if (ec || !in)
    return fail(errc::io_failed, "{} cannot be read", file.string());
  auto made = read(in, size);
  return made ? std::move(made)
              : result<model_signature>(
                    fail(errc::bad_config, "{}: {}", file.string(), made.error().message));
}

} // namespace baton::cluster
