#include "cluster/models/triton/triton_tensors.hpp"

#include "cluster/config/imported/imported_config.hpp"
#include "cluster/config/readers/config_tensors.hpp"
#include "gateway/request/datatype.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

namespace baton::cluster {
namespace {

// Other tensor fields of Triton, and why each is not needed.
constexpr std::pair<std::string_view, std::string_view> left_out_tensor_fields[] = {
    {"reshape", "the worker of a model file refuses it with an error"},
    {"format", "it is the handler's own matter"},
    {"is_shape_tensor", "it is the handler's own matter"},
    {"allow_ragged_batch", "what a client sends is not put together with others"},
    {"label_filename", "classifications are not made here"},
    {"is_non_linear_format_io", "it is the handler's own matter"},
};

class tensors_translation {
public:
  tensors_translation(pbtxt_fields& config, std::string_view platform)
      : config_(config), reshapes_(platform == "python") {
    out_.toml = fmt::format("platform = {}\n", toml_string(platform));
  }

  result<triton_tensors> write() {
    const auto most = config_.integer("max_batch_size", 0, worker_max_batch_size);
    if (most > 0)
      out_.toml += fmt::format("max_batch_size = {}\n", most);
    auto policy = config_.message("model_transaction_policy");
    if (policy.flag("decoupled"))
      out_.toml += "decoupled = true\n";
    write_tensors("input", "inputs");
    write_tensors("output", "outputs");
    for (const auto* part : {&config_, &policy})
      if (part->wrong())
        return *part->wrong();
    return std::move(out_);
  }

private:
  void write_tensors(std::string_view theirs, std::string_view ours) {
    std::string lines;
    std::vector<gateway::worker_tensor> all;
    for (auto& one : config_.messages(theirs)) {
      all.push_back(tensor_of(one));
      lines += line_of(all.back());
      for (const auto& [field, why] : left_out_tensor_fields)
        if (one.find(field) && !(reshapes_ && field == std::string_view("reshape")))
          out_.notes.push_back(fmt::format("{}.{} is left out: {}", theirs, field, why));
      if (const auto fault = fault_of(all.back()); !fault.empty() && !one.wrong())
        config_.fail_with(fail(errc::bad_config, "{} {}: {}", theirs,
                               fault_of_name(all.back().name).empty()
                                   ? fmt::format("'{}'", all.back().name)
                                   : fmt::format("{}", all.size()),
                               fault));
      if (one.wrong())
        config_.fail_with(*one.wrong());
    }
    if (const auto fault = fault_of(all); !fault.empty())
      config_.fail_with(fail(errc::bad_config, "{}: {}", theirs, fault));
    if (!lines.empty())
      out_.toml += fmt::format("{} = [\n{}]\n", ours, lines);
  }

  static gateway::worker_tensor tensor_of(pbtxt_fields& one) {
    gateway::worker_tensor t;
    t.name = one.text("name");
    t.datatype = gateway::datatype_of_config(one.text("data_type"));
    t.shape = one.integers("dims", -1, std::numeric_limits<std::int32_t>::max());
    t.is_optional = one.flag("optional");
    if (t.datatype.empty())
      one.refuse("data_type", "a type of Triton's, as TYPE_FP32,");
    return t;
  }

  static std::string line_of(const gateway::worker_tensor& t) {
    return fmt::format("  {{ name = {}, datatype = \"{}\", shape = [{}]{} }},\n",
                       toml_string(t.name), t.datatype, fmt::join(t.shape, ", "),
                       t.is_optional ? ", optional = true" : "");
  }

  pbtxt_fields& config_;
  bool reshapes_; // the worker reshapes
  triton_tensors out_;
};

} // namespace

result<triton_tensors> import_triton_tensors(pbtxt_fields& config, std::string_view platform) {
  return tensors_translation(config, platform).write();
}

} // namespace baton::cluster
