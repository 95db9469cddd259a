// An ONNX file: its tensors can be served, or it is refused with a printable message.
#include "cluster/models/triton/onnx_file.hpp"

#include "cluster/config/readers/config_tensors.hpp"
#include "gateway/request/datatype.hpp"
#include "runtime/text/unicode/utf8.hpp"
#include "schema/ensure.hpp"
#include "schema/limits.hpp"
#include "tests/fuzz/input.hpp"

#include <algorithm>
#include <sstream>
#include <string>

using namespace baton;

namespace {

bool is_shown(const std::string& words) {
  return !words.empty() && text::utf8_valid_prefix(words) == words.size() &&
         std::none_of(words.begin(), words.end(), [](unsigned char c) { return c < 0x20; });
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in{std::string(fuzz::text_of(data, size))};
  const auto read = cluster::read_onnx_signature(in, size);
  if (!read) {
    ENSURE(is_shown(read.error().message), "an error that cannot be shown");
    return 0;
  }
  ENSURE(!read->outputs.empty(), "a model without an output");
  for (const auto* all : {&read->inputs, &read->outputs}) {
    ENSURE(all->size() <= limits::tensors_max, "{} tensors", all->size());
    for (const auto& t : *all)
      ENSURE(cluster::fault_of_name(t.name).empty() && gateway::is_datatype(t.datatype) &&
                 std::all_of(t.shape.begin(), t.shape.end(), [](auto n) { return n >= -1; }),
             "a tensor that cannot be declared");
  }
  return 0;
}
