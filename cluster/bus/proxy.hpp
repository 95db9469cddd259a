// Typed actors across processes. make_proxy: a handle whose messages go over the bus to an actor
// elsewhere, transparent to the caller. `deliver_to` routes messages from the bus to a local actor.
//
// A proxy has no mailbox and no thread: the sending thread encodes and sends the message. While the
// peer is down, messages are dropped and counted; handlers of peer_down do the recovery.
#pragma once

#include "actors/interfaces.hpp"
#include "cluster/bus/message_router.hpp"
#include "cluster/bus/pinned_actors.hpp"

namespace baton::cluster {
namespace detail {

template <class T, class Variant>
inline constexpr bool is_one_of = false;
template <class T, class... Ts>
inline constexpr bool is_one_of<T, std::variant<Ts...>> = (std::is_same_v<T, Ts> || ...);

// The messages that a handle accepts.
template <class Handle>
struct signature;
// caf::reacts_to<Ms>, in words from which clang 14 can deduce Ms.
template <class... Ms>
struct signature<
    caf::typed_actor<caf::typed_mpi<caf::detail::type_list<Ms>, caf::output_tuple<void>>...>> {
  using all = std::variant<Ms...>;

  // The message in `from` if this handle accepts it and it can cross processes.
  static std::optional<message> crossing(caf::type_erased_tuple& from) {
    std::optional<message> found;
    static_cast<void>((take<Ms>(from, found) || ...));
    return found;
  }

private:
  template <class M>
  static bool take(caf::type_erased_tuple& from, std::optional<message>& found) {
    if constexpr (is_one_of<M, message>) {
      if (from.match_elements<M>()) {
        found.emplace(from.move_if_unshared<M>(0));
        return true;
      }
    }
    return false;
  }
};

template <class Handle>
class proxy final : public caf::monitorable_actor {
public:
  proxy(caf::actor_config& config, message_router& links, process_id process, actor_id target)
      : caf::monitorable_actor(config), links_(links), process_(process), target_(target) {}

  const char* name() const override { return "proxy"; }

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* context) override {
    if (!what || handle_system_message(*what, context, false))
      return;
    if (auto m = signature<Handle>::crossing(what->content()))
      links_.post(process_, target_, std::move(*m));
  }

private:
  message_router& links_;
  process_id process_;
  actor_id target_;
};

// Like anon_send, but an actor that is pinned to this thread is run by it.
template <class Handle, class M>
void hand_over(const Handle& to, M&& content) {
  if (auto* actor = caf::actor_cast<caf::abstract_actor*>(to))
    actor->eq_impl(caf::make_message_id(), nullptr, pinned_actors::here(),
                   std::forward<M>(content));
}

} // namespace detail

// `links` must outlive the actors that hold the handle. Local messages (peer_up, tick ...) are
// dropped. Messages of this process to one peer keep their order across proxies.
template <class Handle>
Handle make_proxy(caf::actor_system& system, message_router& links, process_id process,
                  actor_id target) {
  caf::actor_config config;
  auto made = caf::make_actor<detail::proxy<Handle>, caf::strong_actor_ptr>(
      system.next_actor_id(), system.node(), &system, config, links, process, target);
  return caf::actor_cast<Handle>(std::move(made));
}

// Messages to `id` go to the handle that `choose` returns; a message that it does not accept counts
// as one for an unknown actor. The router keeps `choose` until withdraw(id) or stop(). Handle
// choose(const envelope&, const message&)
template <class Handle, class Choose>
void deliver_to_chosen(message_router& links, actor_id id, Choose choose) {
  links.publish(id, [&links, choose = std::move(choose)](const envelope& e, message&& m) {
    const Handle& to = choose(e, m);
    std::visit(
        [&](auto&& content) {
          using M = std::decay_t<decltype(content)>;
          if constexpr (detail::is_one_of<M, typename detail::signature<Handle>::all>)
            detail::hand_over(to, std::forward<decltype(content)>(content));
          else
            links.count_unknown();
        },
        std::move(m));
  });
}

// The same, with one handle for all messages.
template <class Handle>
void deliver_to(message_router& links, actor_id id, Handle to) {
  deliver_to_chosen<Handle>(links, id,
                            [to](const envelope&, const message&) -> const Handle& { return to; });
}

} // namespace baton::cluster
