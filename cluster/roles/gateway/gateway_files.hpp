// Files that a gateway reads at its start and whenever they change: API keys, certificate and its
// key. Open connections are not affected.
#pragma once

#include "cluster/config/config.hpp"
#include "cluster/files/file_watch.hpp"
#include "gateway/http/http_server.hpp"
#include "gateway/server/api_servers.hpp"
#include "gateway/state/gateway_state.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace baton::cluster {

// None: no file is configured. Errors: as load_api_keys, with the key of nodes.toml.
result<std::optional<std::vector<gateway::api_key>>> load_keys_of(const gateway_section& section);
// "gateway", "gateway-1".
std::string name_of_gateway(std::uint32_t index);
// Addresses and access of gateway `index`: its admin port is gateway.admin's plus the index, and
// only the first gateway has the ZeroMQ server.
gateway::gateway_config gateway_settings(const gateway_section& section,
                                         std::optional<std::vector<gateway::api_key>> keys,
                                         std::uint32_t index = 0);
// Whether a gateway could start. Errors: as load_keys_of, http_server::check and
// grpc_api_server::check.
result<void> check_gateway(const gateway_section& section);
// Checks that the addresses of all gateways are free. Requires: this cluster is not running.
// Errors: as load_keys_of and http_server::check_free; `param` is the key of nodes.toml.
result<void> check_gateway_is_free(const gateway_section& section);
// Requires: check_gateway succeeds.
std::vector<gateway::http_server::remark> remarks_on_gateway(const gateway_section& section);

class gateway_files {
public:
  // Requires: the state and servers were set up from files read after this watch was made.
  explicit gateway_files(gateway_section section);
  void attach(std::shared_ptr<gateway::gateway_state> state,
              std::shared_ptr<gateway::api_servers> servers);

  // Call it periodically. An unreadable file changes nothing; `report` gets the reason, and an
  // empty text once all is well again.
  void look(const std::function<void(const std::string& why)>& report);

private:
  void reload_keys();
  void reload_certificate();

  gateway_section section_;
  file_watch keys_;
  file_watch certificate_;
  std::shared_ptr<gateway::gateway_state> state_;
  std::shared_ptr<gateway::api_servers> servers_;
  std::string keys_wrong_; // empty: no error
  std::string certificate_wrong_;
};

} // namespace baton::cluster
