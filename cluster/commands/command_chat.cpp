// `cluster chat`: a conversation over the gateway's ZeroMQ endpoint, with the public SDK.
#include "cluster/commands/chat_session.hpp"
#include "cluster/commands/line_editor.hpp"
#include "cluster/config/config.hpp"
#include "cluster/config/readers/config_file.hpp"

#include <cstdio>
#include <cstdlib>

namespace baton::cluster {
namespace {

// The endpoint to talk to, and its description for people.
struct partner {
  std::string endpoint;
  std::string shown;
};

result<partner> partner_of(const running_cluster& found) {
  auto config = load_config(found.dir.config());
  if (!config)
    return config.error();
  const auto& zmq = config->gateway.zmq;
  if (zmq.empty())
    return fail(errc::not_found, "cluster {} has no ZeroMQ endpoint (gateway.zmq is empty)",
                found.name);
  return partner{zmq, fmt::format("cluster {}, {}", found.name, zmq)};
}

// Command lines are visible to other users of the machine; the environment is not.
std::string api_key_of(const chat_options& options) {
  const char* given = std::getenv("BATON_API_KEY");
  return !options.api_key.empty() || !given ? options.api_key : given;
}

int refuse_chat(const error& e) {
  std::fprintf(stderr, "error: %s: %s\n", std::string(row_of(e.code).name).c_str(),
               e.message.c_str());
  return exit_failed;
}

} // namespace

int chat_at(chat_options options, const std::string& shown) {
  client_options sdk;
  sdk.api_key = api_key_of(options);
  auto connection = client::connect(options.endpoint, sdk);
  if (!connection)
    return refuse_chat(connection.error());
  if (options.model.empty()) {
    auto models = connection->models();
    if (!models)
      return refuse_chat(models.error());
    if (models->empty())
      return refuse_chat(fail(errc::not_ready, "no LLM is served there"));
    options.model = models->front().name;
  }
  catch_interrupts(); // the client's threads have them blocked
  const auto message = options.message;
  std::fprintf(stderr, "%s (%s)\n", options.model.c_str(), shown.c_str());
  chat_session session(*connection, std::move(options));
  if (message.empty())
    return session.converse();
  const auto done = session.ask(message);
  return done ? 0 : refuse_chat(done.error());
}

int command_chat(const chat_options& options) {
  if (!options.endpoint.empty())
    return chat_at(options, options.endpoint);
  const auto found = find_cluster(options.which);
  if (!found)
    return refuse_search(found.error());
  const auto with = partner_of(*found);
  if (!with)
    return refuse_chat(with.error());
  auto at = options;
  at.endpoint = with->endpoint;
  return chat_at(std::move(at), with->shown);
}

} // namespace baton::cluster
