// A client of the simulated gateway and what it may rely on: contiguous tokens, the right ones,
// exactly one end.
#pragma once

#include "gateway/desk.hpp"
#include "runtime/engine/toy_engine.hpp"

#include <memory>
#include <string>
#include <vector>

namespace baton::sim {

class client {
public:
  // `input` are ids of the toy model; greedy if seed is 0.
  client(std::uint64_t number, ids_prompt input, std::uint32_t tokens_max, std::uint64_t seed);

  gateway::open_generate request() const;
  // Its gateway died: what it had not read is lost, or comes all the same. False if it knows of no
  // ticket, or has nothing to come back for.
  bool lose_gateway(bool reads_rest, const engine::toy_model& toy);
  // Waits for a gateway that it can come back to.
  bool is_orphan() const { return is_orphan_; }
  gateway::open_resume come_back(std::uint64_t number);
  // Takes what has come. What breaks a promise is added to `broken`.
  void read(const engine::toy_model& toy);

  bool has_ended() const { return ends_ > 0; }
  bool is_complete() const { return has_ended() && !failure_; }
  const std::optional<error>& failure() const { return failure_; }
  const std::vector<std::string>& broken() const { return broken_; }
  std::uint64_t number() const { return number_; }
  std::size_t tokens() const { return ids_.size(); }
  bool was_left = false; // the client went away: no end is owed to it

private:
  void take(const chunk& c);
  void end(std::optional<error> why);
  sampling_params sampling() const;

  std::uint64_t number_;
  ids_prompt input_;
  std::uint32_t tokens_max_;
  std::uint64_t seed_;
  std::shared_ptr<gateway::stream> stream_;
  std::optional<granted> ticket_;
  bool is_orphan_ = false;
  std::vector<token_id> ids_;
  int ends_ = 0;
  std::optional<error> failure_;
  std::vector<std::string> broken_;
};

} // namespace baton::sim
