// A saved_model.pb of TensorFlow: its tensors can be served, or it is refused with a printable
// message. It is read for Triton's choice, and for a named graph and signature.
#include "cluster/config/readers/config_tensors.hpp"
#include "cluster/models/triton/saved_model_file.hpp"
#include "gateway/request/datatype.hpp"
#include "runtime/text/unicode/utf8.hpp"
#include "schema/ensure.hpp"
#include "schema/limits.hpp"
#include "tests/fuzz/input.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

using namespace baton;

namespace {

const std::array choices{cluster::saved_model_choice{},
                         cluster::saved_model_choice{.tag = "train", .signature = "named"}};

bool can_be_shown(const std::string& words) {
  return !words.empty() && text::utf8_valid_prefix(words) == words.size() &&
         std::none_of(words.begin(), words.end(), [](unsigned char c) { return c < 0x20; });
}

void check_declared(const std::vector<gateway::worker_tensor>& all) {
  ENSURE(all.size() <= limits::tensors_max, "{} tensors", all.size());
  for (const auto& t : all)
    ENSURE(cluster::fault_of_name(t.name).empty() && gateway::is_datatype(t.datatype) &&
               std::all_of(t.shape.begin(), t.shape.end(), [](auto n) { return n >= -1; }),
           "a tensor that cannot be declared");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto& choice : choices) {
    std::istringstream in{std::string(fuzz::text_of(data, size))};
    const auto read = cluster::read_saved_model(in, size, choice);
    if (!read) {
      ENSURE(can_be_shown(read.error().message), "an error that cannot be shown");
      continue;
    }
    check_declared(read->inputs);
    check_declared(read->outputs);
  }
  return 0;
}
