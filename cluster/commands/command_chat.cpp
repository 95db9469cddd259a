// `cluster chat`: a conversation over the gateway's ZeroMQ endpoint, with the public SDK.
#include "cluster/commands/commands.hpp"
#include "cluster/config/config.hpp"

#include <baton/client.hpp>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>

namespace baton::cluster {
namespace {

constexpr std::chrono::seconds chunk_patience{120};

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

// Prints the answer as it streams, and returns it whole.
result<std::string> stream_answer(client& connection, const chat_options& options,
                                  const chat_prompt& conversation) {
  generate request;
  request.model = options.model;
  request.input = conversation;
  request.unspecified = all_sampling_fields & ~bit_of(sampling_field::max_tokens);
  if (options.temperature) {
    request.terms.sampling.temperature = static_cast<float>(*options.temperature);
    request.unspecified &= ~bit_of(sampling_field::temperature);
  }
  request.terms.sampling.seed = std::random_device{}();
  request.terms.stop.max_tokens = options.max_tokens;
  request.terms.max_tokens_given = true;
  auto stream = connection.generate(std::move(request));
  if (!stream)
    return stream.error();
  std::string answer;
  for (;;) {
    auto next = stream->next(chunk_patience);
    if (!next)
      return next.error();
    if (!*next)
      break;
    const auto& piece = **next;
    std::fputs(piece.text.c_str(), stdout);
    std::fflush(stdout);
    answer += piece.text;
    if (piece.failure)
      return *piece.failure;
  }
  std::puts("");
  return answer;
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

int converse(chat_options options, const partner& with) {
  client_options sdk;
  sdk.api_key = api_key_of(options);
  auto connection = client::connect(with.endpoint, sdk);
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
  std::fprintf(stderr, "%s (%s)\n", options.model.c_str(), with.shown.c_str());
  chat_prompt conversation;
  if (!options.system.empty())
    conversation.push_back({"system", options.system, ""});
  if (!options.message.empty()) {
    conversation.push_back({"user", options.message, ""});
    auto answer = stream_answer(*connection, options, conversation);
    return answer ? 0 : refuse_chat(answer.error());
  }
  std::puts("An empty line or ^D ends.");
  for (std::string line; std::fputs("> ", stdout), std::fflush(stdout),
                         std::getline(std::cin, line) && !line.empty();) {
    conversation.push_back({"user", line, ""});
    auto answer = stream_answer(*connection, options, conversation);
    if (!answer)
      return refuse_chat(answer.error());
    conversation.push_back({"assistant", *answer, ""});
  }
  return 0;
}

} // namespace

int command_chat(const chat_options& options) {
  if (!options.endpoint.empty())
    return converse(options, {options.endpoint, options.endpoint});
  const auto found = find_cluster(options.which);
  if (!found)
    return refuse_search(found.error());
  const auto with = partner_of(*found);
  return with ? converse(options, *with) : refuse_chat(with.error());
}

} // namespace baton::cluster
