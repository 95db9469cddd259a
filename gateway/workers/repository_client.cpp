#include "gateway/workers/repository_client.hpp"

#include "actors/actor_faults.hpp"

#include <map>
#include <utility>

namespace baton::gateway {
namespace {

error root_is_away() {
  return fail(errc::not_ready,
              "the root, which loads models, is away: the index shows what was done");
}

struct repository_state {
  struct waiting {
    std::shared_ptr<stream> out;
    std::chrono::steady_clock::time_point until;
  };

  static inline const char* name = "repository_client";

  repository_client_config config;
  std::map<std::uint64_t, waiting> open;
  // A model's last `keep` without an answer, by its name: a loaded model has no second way to learn
  // of it. There are no more than models on demand.
  std::map<std::string, change_model> keeps;
  bool is_root_away = false;

  void answer(std::uint64_t request, stream_event e) {
    const auto it = open.find(request);
    if (it == open.end())
      return; // its client has disconnected
    const auto out = std::exchange(it->second.out, nullptr);
    open.erase(it);
    out->push(std::move(e));
    out->wake_reader();
  }

  // Fails those that `is_meant` selects.
  template <class Predicate>
  void fail_if(Predicate is_meant, const error& why) {
    std::vector<std::uint64_t> all;
    for (const auto& [request, w] : open)
      if (is_meant(w))
        all.push_back(request);
    for (const auto request : all)
      answer(request, failed{why});
  }
};

repository_actor::behavior_type
repository_client(repository_actor::stateful_pointer<repository_state> self,
                  repository_client_config config) {
  actors::install_fault_handlers(self);
  self->state.config = std::move(config);
  return {
      [self](open_change& m) {
        auto& s = self->state;
        m.change.request = m.out->number();
        s.open.emplace(
            m.change.request,
            repository_state::waiting{std::move(m.out), self->clock().now() + s.config.answer_max});
        const auto number = m.change.request;
        if (m.change.what == model_order::keep)
          s.keeps[m.change.model] = m.change;
        if (s.is_root_away)
          s.answer(number, failed{root_is_away()});
        else
          s.config.ask(m.change);
      },
      [self](const close_request& m) { self->state.open.erase(m.request); },
      [self](model_changed& m) {
        const auto number = m.request;
        auto& keeps = self->state.keeps;
        if (const auto it = keeps.find(m.model); it != keeps.end() && it->second.request == number)
          keeps.erase(it);
        self->state.answer(number, std::move(m));
      },
      [self](const actors::peer_up& m) {
        auto& s = self->state;
        if (m.peer.process != s.config.root)
          return;
        s.is_root_away = false;
        for (const auto& [model, order] : s.keeps)
          s.config.ask(order);
      },
      [self](const actors::peer_down& m) {
        auto& s = self->state;
        if (m.process != s.config.root)
          return;
        s.is_root_away = true;
        s.fail_if([](const auto&) { return true; }, root_is_away());
      },
      [self](const actors::tick&) {
        const auto now = self->clock().now();
        self->state.fail_if([now](const auto& w) { return w.until <= now; },
                            fail(errc::deadline_exceeded, "the root has not answered in time"));
      },
  };
}

} // namespace

repository_actor spawn_repository_client(caf::actor_system& system,
                                         repository_client_config config) {
  return system.spawn(repository_client, std::move(config));
}

} // namespace baton::gateway
