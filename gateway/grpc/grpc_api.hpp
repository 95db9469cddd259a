// What each method of gRPC does with a message: a reply at once, or the typed request to open and
// how it is answered. Knows the messages, by the library's codec, and no connection. Pure but for
// the board it reads.
#pragma once

#include "gateway/base/field_words.hpp"
#include "gateway/base/speaker.hpp"
#include "gateway/grpc/grpc_methods.hpp"
#include "gateway/grpc/grpc_status.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace baton::gateway {

// What comes for one request to messages: chunks of a language model, pieces of a worker model.
class grpc_answer {
public:
  virtual ~grpc_answer() = default;
  // Requires: failure_of(c) is nothing. May gather what it is given until tell().
  virtual void add(const chunk&, std::vector<std::string>& /*out*/) {}
  // Nothing more is there for now: what is gathered goes out.
  virtual void tell(std::vector<std::string>& /*out*/) {}
  // Errors: what cannot be told, with which the answer ends.
  virtual result<void> take(inferred, std::vector<std::string>& /*out*/) {
    return fail(errc::internal, "the answer was of another kind");
  }
  virtual void take(const model_changed&, std::vector<std::string>& /*out*/) {}
  virtual bool has_ended() const noexcept = 0;
  // What is said of a failure in a message; nothing: the call ends with it.
  virtual std::optional<std::string> failure(const error&) const { return std::nullopt; }
};

struct grpc_reply {
  std::string bytes;
};
struct grpc_generate {
  generate request;
  std::unique_ptr<grpc_answer> answer;
  bool add_generation_prompt = true;
  std::string busy_model{}; // TorchServe's, in whose words a refusal for load has it
  std::function<void(const reply_times&)> ended_well{}; // none: nobody counts
  field_words words{};                                  // what the client calls its fields
};
struct grpc_ask_worker {
  infer request;
  std::unique_ptr<grpc_answer> answer;
  std::string busy_model{};
  std::function<void(const reply_times&)> ended_well{};
  bool goes_alone = false; // its worker is given no other request with it
};
// The root answers it; what it says becomes a message, if all is well.
struct grpc_ask_root {
  change_model change;
  std::function<std::string(const model_changed&)> tell;
};
// What was wrong with one message of many, said in another.
struct grpc_complaint {
  std::string bytes;
  error what;
};
using grpc_plan =
    std::variant<grpc_reply, grpc_generate, grpc_ask_worker, grpc_ask_root, grpc_complaint, error>;

// In whose words an error is.
grpc_status grpc_failure(grpc_service service, const error& e,
                         std::chrono::milliseconds retry_after = {});

// Who calls, if they may. What is no method needs a key all the same. Errors: unauthorized,
// forbidden; not_found; method_not_allowed, for what is known and not here.
result<caller> admit_grpc(grpc_service service, const grpc_head& head, board& facts);
// The value of the metadata `name`; empty, if it comes twice.
std::string_view metadata_of(const grpc_head& head, std::string_view name) noexcept;
// Of another trace, if traces are exported.
std::optional<trace_parent> trace_of(const grpc_head& head);
// Requires: admit_grpc has let it in.
grpc_plan plan_grpc(const grpc_method& method, std::string_view message, const grpc_codec& codec,
                    board& facts);

// Parts of it, by service.
grpc_plan plan_kserve_infer(const grpc_method& method, std::string_view message,
                            const grpc_codec& codec, const board& facts);
// Of RepositoryModelLoad and RepositoryModelUnload; nothing: it is no matter of a model repository.
std::optional<result<change_model>>
plan_repository_change(const grpc_method& method, const std::string& asked, const board& facts);
// Of a model of the store; nothing: it is no matter of the root.
std::optional<result<change_model>> plan_store_change(const grpc_method& method,
                                                      const std::string& asked, const board& facts);
result<std::string> answer_kserve(const grpc_method& method, const std::string& asked,
                                  const board& facts); // JSON both
grpc_plan plan_torchserve_prediction(const grpc_method& method, std::string_view message,
                                     const grpc_codec& codec, board& facts);
result<std::string> answer_torchserve(const grpc_method& method, const std::string& asked,
                                      const board& facts); // JSON both
// Of worker models.
grpc_plan plan_worker_infer(const worker_view& of, kserve_route route, grpc_infer said,
                            const grpc_codec& codec);
grpc_plan plan_worker_prediction(const worker_view& of, const grpc_method& method,
                                 grpc_prediction said, const grpc_codec& codec, board& facts);

} // namespace baton::gateway
