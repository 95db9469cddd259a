#include "tests/sim/client.hpp"

#include "schema/result.hpp"

namespace baton::sim {

client::client(std::uint64_t number, ids_prompt input, std::uint32_t tokens_max, std::uint64_t seed)
    : number_(number), input_(std::move(input)), tokens_max_(tokens_max), seed_(seed),
      stream_(std::make_shared<gateway::stream>(number, std::size_t{1} << 20, [] {})) {}

sampling_params client::sampling() const {
  sampling_params s;
  s.temperature = seed_ == 0 ? 0.0F : 1.0F;
  s.seed = seed_;
  if (seed_ % 3 == 1)
    s.frequency_penalty = 0.5F; // history travels with the step
  return s;
}

gateway::open_generate client::request() const {
  generate g;
  g.request = number_;
  g.model = "toy";
  g.input = input_;
  g.sampling = sampling();
  g.stop.tokens_max = tokens_max_;
  g.stop.ignore_eos = true;
  g.tokens_max_given = true;
  return {stream_, g, true, true};
}

bool client::lose_gateway(bool reads_rest, const engine::toy_model& toy) {
  if (reads_rest)
    read(toy);
  stream_->detach();
  return is_orphan_ = ticket_ && !has_ended();
}

gateway::open_resume client::come_back(std::uint64_t number) {
  is_orphan_ = false;
  number_ = number;
  stream_ = std::make_shared<gateway::stream>(number, std::size_t{1} << 20, [] {});
  return {stream_,
          "toy",
          ticket_->ticket,
          ticket_->resume_key,
          {{static_cast<std::uint32_t>(ids_.size()), false}}};
}

void client::end(std::optional<error> why) {
  if (++ends_ > 1)
    broken_.push_back("a second end");
  failure_ = std::move(why);
}

void client::take(const chunk& c) {
  if (has_ended())
    broken_.push_back("text after the end");
  if (c.index != ids_.size() + c.count)
    broken_.push_back(fmt::format("tokens up to {} after {}", c.index, ids_.size()));
  ids_.insert(ids_.end(), c.ids.begin(), c.ids.end());
  if (c.finish != finish::none)
    end(c.failure);
}

void client::read(const engine::toy_model& toy) {
  while (auto event = stream_->next()) {
    if (auto* c = std::get_if<chunk>(&*event))
      take(*c);
    else if (auto* g = std::get_if<granted>(&*event))
      ticket_ = *g;
    else if (auto* r = std::get_if<rejected>(&*event))
      end(r->reason);
    else if (auto* f = std::get_if<gateway::failed>(&*event))
      end(f->reason);
  }
  auto expected =
      engine::toy_continuation(toy, input_, sampling(), static_cast<std::uint32_t>(ids_.size()));
  if (ids_ != expected)
    broken_.push_back("other tokens than the fault-free run");
  if (is_complete() && ids_.size() != tokens_max_)
    broken_.push_back(fmt::format("{} of {} tokens at the end", ids_.size(), tokens_max_));
}

} // namespace baton::sim
