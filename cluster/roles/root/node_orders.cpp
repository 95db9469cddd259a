#include "cluster/roles/root/node_orders.hpp"

#include "cluster/config/readers/config_file.hpp"
#include "cluster/config/readers/config_text.hpp"

namespace baton::cluster {

nodes_changed node_orders::change(const change_nodes& order) {
  if (!order.is_drain && !plan_.has_node(order.node))
    if (auto ok = admit(order.node); !ok)
      return {order.request, 0, ok.error(), {}};
  const auto invited =
      order.is_drain || join_ == nullptr ? std::nullopt : join_->invitation_of(order.node);
  if (invited && !invited->has_joined)
    return {order.request, 0, error{errc::not_ready, text_of(*invited), ""}, {}};
  return plan_.change(order);
}

result<void> node_orders::admit(const std::string& node) {
  if (join_ == nullptr)
    return fail(
        errc::not_found,
        "there is no node {}, and none can be added: the cluster came up without cluster.host",
        node);
  const auto text = text_of_config(original_);
  if (!text)
    return text.error();
  auto fresh = parse_config(*text, original_.string());
  if (!fresh)
    return fresh.error();
  const auto newcomers = plan_.admit(node, *text, std::move(*fresh));
  return newcomers ? join_->expect(*newcomers, plan_.latest_update().nodes) : newcomers.error();
}

nodes_changed node_orders::remove(const remove_node& order) {
  if (auto ok = plan_.remove(order.node); !ok)
    return {order.request, 0, ok.error(), {}};
  join_->dismiss(order.node, plan_.latest_update().nodes);
  return {order.request, 0, std::nullopt, {}};
}

} // namespace baton::cluster
