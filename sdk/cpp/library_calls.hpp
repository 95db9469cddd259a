// The functions that a library behind the C boundary may call: to answer, and to call other models.
// One state per process, because C functions have no object.
#pragma once

#include "sdk/cpp/baton/worker.hpp"
#include "sdk/cpp/baton/worker_abi.h"

#include <optional>
#include <string>
#include <vector>

namespace baton::sdk {

// A request while its batch is answered: the object behind a baton_work.
class library_work {
public:
  explicit library_work(work& of);
  library_work(library_work&&) = delete;

  baton_request request();
  baton_work* handle() { return reinterpret_cast<baton_work*>(this); }
  static library_work& of(baton_work* w) { return *reinterpret_cast<library_work*>(w); }
  work& answer() { return work_; }
  const baton_details* details();

private:
  work& work_;
  std::vector<baton_tensor> inputs_;
  std::vector<baton_header> headers_;
  std::vector<const char*> outputs_;
  std::optional<baton_details> details_; // made on first use
};

// `version`: of the library.
const baton_worker_calls& library_calls(const worker_place& place, std::uint32_t version);

} // namespace baton::sdk
