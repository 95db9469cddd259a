#include "gateway/api/ollama/ollama_routes.hpp"

#include "gateway/api/ollama/ollama_embedding.hpp"
#include "gateway/api/ollama/ollama_error.hpp"
#include "gateway/api/ollama/ollama_model.hpp"
#include "gateway/api/ollama/ollama_openapi.hpp"
#include "gateway/api/ollama/ollama_request.hpp"
#include "gateway/api/ollama/ollama_response.hpp"
#include "gateway/api/openai/openai_routes.hpp"
#include "gateway/state/gateway_state.hpp"
#include "gateway/state/on_demand_order.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

constexpr std::string_view ollama_prefix = "/api/";

// The models that are listed: each, and the aliases, which are those of the first one.
std::vector<listed_model> listed_models(const gateway_state& facts) {
  const auto cards = models_of(*facts.look());
  std::vector<listed_model> all;
  for (const auto& card : cards) {
    all.push_back({card.name, card});
  }
  for (const auto& alias : facts.config().model_aliases) {
    if (!cards.empty()) {
      all.push_back({alias, cards.front()});
    }
  }
  return all;
}

// The served name of a model that the client names, also while it is not ready.
result<std::string> find_served(const gateway_state& facts, std::string_view asked) {
  auto names = facts.config().model_aliases;
  for (const auto& pipeline : facts.look()->pipelines) {
    names.push_back(model_of(pipeline));
  }
  auto name = served_name(names, asked);
  return name ? result<std::string>(*std::move(name)) : ollama_model_not_found(asked);
}

// Its description. Errors: there is no such model, or none of its pipelines is ready.
result<listed_model> find_listed(const gateway_state& facts, std::string_view asked) {
  const auto name = find_served(facts, asked);
  if (!name) {
    return name.error();
  }
  auto card = find_model(*facts.look(), facts.config().model_aliases, *name);
  return card ? result<listed_model>(listed_model{*name, *std::move(card)}) : card.error();
}

// Applies the served model: its name, its context, its template, its format of calls.
result<void> settle_model(ollama_call& call, const gateway_state& facts) {
  auto& request = call.asked.request;
  const auto name = find_served(facts, request.model);
  if (!name) {
    return name.error();
  }
  request.model = *name;
  const auto card = find_model(*facts.look(), facts.config().model_aliases, *name);
  if (!card) { // the queue may be open: admission decides
    return call.only_loads ? result<void>(card.error()) : settle_answer(call.asked, facts);
  }
  if (request.prompt_tokens_max >= card->max_model_len && card->max_model_len > 0) {
    request.prompt_tokens_max = prompt_tokens_of_context; // `num_ctx` is not less
  }
  if (call.bare_prompt && !card->has_chat_template) {
    request.input = *call.bare_prompt;
    request.template_options.kwargs.clear();
  }
  return settle_answer(call.asked, facts);
}

// The order for the root that goes with a request; nothing if the model is always loaded.
std::optional<change_model> keep_order(const gateway_state& facts, const std::string& model,
                                       std::optional<std::chrono::milliseconds> keep_alive) {
  if (!keep_alive || !is_on_demand(facts, model)) {
    return std::nullopt;
  }
  auto order = order_on_demand(facts, model, /*is_unload=*/false);
  if (!order) {
    return std::nullopt; // the request is refused for it
  }
  order->what = model_order::keep;
  order->keep_alive = keep_alive->count();
  order->waits = false;
  return *std::move(order);
}

generation_call answer_ollama(ollama_call call, std::optional<change_model> order) {
  auto& asked = call.asked;
  auto out = open_prompts(asked);
  out.order = std::move(order);
  out.can_resume = out.is_stream;
  out.resume = asked.resume;
  if (out.resume) { // calls are read out of all of the text (ollama_stream)
    out.resume->from.assign(1, {});
  }
  const ollama_shape shape{.route = call.route, .is = asked.shape};
  out.whole = [shape](const std::string&) { return std::make_unique<ollama_unary>(shape); };
  out.events = [shape, from = std::move(asked.resume)](const std::string&,
                                                       const reply_identity& who) {
    return std::make_unique<ollama_stream>(shape, who, from);
  };
  out.event_type = line_media;
  out.family = &ollama_family;
  return out;
}

// A call without a prompt. A model that is always loaded is left as it is.
api_call load_ollama(const ollama_call& call, const gateway_state& facts) {
  const ollama_shape shape{.route = call.route, .is = call.asked.shape};
  const auto& model = call.asked.request.model;
  if (!is_on_demand(facts, model)) {
    return ollama_load_reply(shape, /*is_unload=*/false);
  }
  auto order = order_on_demand(facts, model, call.unloads);
  if (!order) {
    return ollama_failure(order.error());
  }
  if (call.keep_alive && !call.unloads) {
    order->keep_alive = call.keep_alive->count();
  }
  message_call out;
  out.request = *std::move(order);
  out.writer =
      write_message<model_changed>([shape, is_unload = call.unloads](const model_changed&) {
        return ollama_load_reply(shape, is_unload);
      });
  out.family = &ollama_family;
  return out;
}

template <ollama_route Route>
api_call answer_prompt(const http_call& call, gateway_state& facts) {
  auto parsed = parse_ollama(Route, call.body, facts.config().request);
  if (parsed) {
    auto ok = resume_answer(call, parsed->asked);
    ok = ok ? settle_model(*parsed, facts) : ok;
    if (!ok) {
      return ollama_failure(ok.error());
    }
    if (parsed->only_loads) {
      return load_ollama(*parsed, facts);
    }
  }
  return with_parsed(std::move(parsed), ollama_family, [&facts](ollama_call asked) {
    auto order = keep_order(facts, asked.asked.request.model, asked.keep_alive);
    return answer_ollama(std::move(asked), std::move(order));
  });
}

api_call answer_embed(result<ollama_embed> parsed, const gateway_state& facts) {
  if (parsed) {
    const auto name = find_served(facts, parsed->model);
    if (!name) {
      return ollama_failure(name.error());
    }
    if (parsed->requests.empty()) {
      return ollama_no_embeddings(parsed->model);
    }
    for (auto& request : parsed->requests) {
      request.model = *name;
    }
  }
  return with_parsed(std::move(parsed), ollama_family, [&facts](ollama_embed asked) {
    generation_call out;
    out.order = keep_order(facts, asked.requests.front().model, asked.keep_alive);
    out.requests = asked.requests;
    out.client_names = {{{"prompt", asked.is_older ? "prompt" : "input"}}};
    out.add_generation_prompt = false;
    out.whole = [asked = std::move(asked)](const std::string&) {
      return std::make_unique<ollama_embedding>(asked);
    };
    out.family = &ollama_family;
    return out;
  });
}

api_call embed_ollama(const http_call& call, gateway_state& facts) {
  return answer_embed(parse_ollama_embed(call.body, facts.config().request), facts);
}

api_call embed_ollama_older(const http_call& call, gateway_state& facts) {
  return answer_embed(parse_ollama_embeddings(call.body, facts.config().request), facts);
}

api_call list_tags(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(ollama_tags_body(listed_models(facts)));
}

// When this model is unloaded, if no further request comes: counted from now while it has one.
std::optional<std::chrono::system_clock::time_point> expiry_of(const snapshot& s,
                                                               const std::string& model) {
  for (const auto& p : s.cluster ? s.cluster->pipelines : std::vector<pipeline_status>()) {
    if (p.model != model || !p.on_demand || p.on_demand->keep_alive < 0) {
      continue;
    }
    using std::chrono::system_clock;
    const auto since =
        p.on_demand->idle_since > 0
            ? system_clock::time_point(std::chrono::milliseconds(p.on_demand->idle_since))
            : system_clock::now();
    return since + std::chrono::milliseconds(p.on_demand->keep_alive);
  }
  return std::nullopt;
}

api_call list_running(const http_call& /*call*/, gateway_state& facts) {
  const auto now = facts.look();
  auto all = listed_models(facts);
  std::erase_if(all, [&](const listed_model& m) { return !is_served(*now, m.card.name); });
  for (auto& model : all) {
    model.expires_at = expiry_of(*now, model.card.name);
  }
  return json_reply(ollama_ps_body(all));
}

api_call show_model(const http_call& call, gateway_state& facts) {
  return with_parsed(parse_ollama_show(call.body, facts.config().request), ollama_family,
                     [&facts](const ollama_named& asked) {
                       const auto model = find_listed(facts, asked.model);
                       return model ? json_reply(ollama_show_body(*model))
                                    : ollama_failure(model.error());
                     });
}

api_call pull_model(const http_call& call, gateway_state& facts) {
  return with_parsed(parse_ollama_pull(call.body, facts.config().request), ollama_family,
                     [&facts](const ollama_named& asked) {
                       if (const auto name = find_served(facts, asked.model); !name) {
                         auto e = name.error();
                         e.message += ": this server serves the models of its configuration, and "
                                      "pulls none";
                         return ollama_failure(e);
                       }
                       auto reply = json_reply(ollama_pull_body());
                       if (asked.is_stream) {
                         reply.content_type = line_media;
                         reply.body += '\n';
                       }
                       return reply;
                     });
}

api_call show_version(const http_call& /*call*/, gateway_state& facts) {
  return json_reply(ollama_version_body(facts.config().build));
}

api_call say_running(const http_call& /*call*/, gateway_state& /*facts*/) {
  http_reply reply;
  reply.content_type = "text/plain; charset=utf-8";
  reply.body = "Ollama is running";
  return reply;
}

api_call refuse_push(const http_call& /*call*/, gateway_state& /*facts*/) {
  return ollama_not_carried_out("push models");
}

api_call refuse_create(const http_call& /*call*/, gateway_state& /*facts*/) {
  return ollama_not_carried_out("create models");
}

api_call refuse_copy(const http_call& /*call*/, gateway_state& /*facts*/) {
  return ollama_not_carried_out("copy models");
}

api_call refuse_delete(const http_call& /*call*/, gateway_state& /*facts*/) {
  return ollama_not_carried_out("delete models");
}

} // namespace

constinit const api_family ollama_family{"OllamaError", ollama_error_schema, ollama_refusal,
                                         [](const error& e) { return ollama_failure(e); }};

std::span<const route_row> ollama_routes() noexcept {
  using enum method_set;
  constexpr auto row = user_rows_of(&ollama_family);
  static constexpr route_row rows[] = {
      row("/api/chat", post, answer_prompt<ollama_route::chat>,
          {"An answer to a conversation in Ollama's format", ollama_chat_schema, line_media,
           json_media}),
      row("/api/generate", post, answer_prompt<ollama_route::generate>,
          {"An answer to a prompt in Ollama's format", ollama_generate_schema, line_media,
           json_media}),
      row("/api/embed", post, embed_ollama,
          {"Texts as vectors of length 1 in Ollama's format", ollama_embed_schema}),
      row("/api/embeddings", post, embed_ollama_older,
          {"The same of one text", ollama_embeddings_schema}),
      row("/api/tags", get, list_tags, {"The models that are served, in Ollama's format"}),
      row("/api/ps", get, list_running, {"Those that are ready"}),
      row("/api/show", post, show_model, {"One of them", ollama_named_schema}),
      row("/api/version", get, show_version, {"The version of Ollama's API"}),
      row("/api/pull", post, pull_model,
          {"Succeeds for a model that is served", ollama_named_schema, line_media, json_media}),
      row("/api/push", post, refuse_push, {"Refused", ollama_named_schema}),
      row("/api/create", post, refuse_create, {"Refused", ollama_named_schema}),
      row("/api/copy", post, refuse_copy, {"Refused", ollama_named_schema}),
      row("/api/delete", remove, refuse_delete, {"Refused"}),
  };
  return rows;
}

bool is_ollama_path(std::string_view path) noexcept {
  return path == "/api" || path.starts_with(ollama_prefix);
}

bool is_at_ollama(std::string_view path) noexcept {
  return is_ollama_path(path) || path.starts_with("/v1/");
}

const route_row& ollama_root() noexcept {
  static constexpr route_row root{.path = "/",
                                  .methods = method_set::get,
                                  .access = route_access::open,
                                  .family = &ollama_family,
                                  .handler = say_running,
                                  .doc = {"Says that it runs"}};
  return root;
}

} // namespace baton::gateway
