// Answers of the GET routes: health, version, load, cluster, metrics, models and the web page.
#include "gateway/api/openai/openai_response.hpp"
#include "gateway/api/tgi/tgi_error.hpp"
#include "gateway/api/tgi/tgi_response.hpp"
#include "gateway/api/torchserve/torchserve_api.hpp"
#include "gateway/base/http_header.hpp"
#include "gateway/routes/error_words.hpp"
#include "gateway/routes/http_api.hpp"
#include "gateway/routes/openapi.hpp"
#include "gateway/routes/status_response.hpp"
#include "gateway/routes/web_page.hpp"

#include <algorithm>

namespace baton::gateway {
namespace {

http_reply standing_reply(const snapshot& s, std::string body) {
  auto reply = json_reply(std::move(body));
  if (standing_of(s).phase != phase::ready) {
    reply.status = row_of(errc::not_ready).http_status;
    reply.headers.emplace_back("Retry-After", "1");
  }
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

} // namespace

http_reply http_api::answer_get(std::string_view path, const http_call& call) const {
  const auto now = facts_->look();
  if (path == "/health") {
    return standing_reply(*now, health_body(*now));
  }
  if (path == "/ping") {
    return standing_reply(*now, ping_body(*now));
  }
  if (path == "/version") {
    return json_reply(version_body(facts_->config().build));
  }
  if (path == "/openapi.json") {
    return json_reply(openapi_body(facts_->config()));
  }
  if (path == "/load") {
    return json_reply(load_body(*now, facts_->requests_open()));
  }
  if (path == "/cluster") {
    return json_reply(cluster_body(*now, facts_->requests_open()));
  }
  if (path == "/metrics") {
    auto reply =
        json_reply(facts_->metrics().text(*now, facts_->requests_open(),
                                          facts_->authenticator().usage(), facts_->worker_views()) +
                   worker_metrics(facts_->worker_views()) + facts_->handler_metrics()->text());
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return reply;
  }
  if (path == "/v1/models" || path.starts_with(model_prefix)) {
    return models_reply(path);
  }
  if (path == "/info") {
    const auto card = find_model(*now, {}, {});
    return card ? json_reply(tgi_info_body(*card, facts_->config())) : tgi_failure(card.error());
  }
  return web_reply(path, {call.if_none_match, call.accept_encoding});
}

http_reply http_api::models_reply(std::string_view path) const {
  const auto cards = models_of(*facts_->look());
  const auto& aliases = facts_->config().model_aliases;
  if (path == "/v1/models") {
    return json_reply(models_body(cards, aliases));
  }
  const auto id = percent_decoded(path.substr(model_prefix.size()));
  if (id) {
    const auto card = std::find_if(cards.begin(), cards.end(),
                                   [&](const model_card& c) { return c.name == *id; });
    if (card != cards.end()) {
      return json_reply(model_body(*card, *id));
    }
    const bool is_alias = std::find(aliases.begin(), aliases.end(), *id) != aliases.end();
    if (is_alias && !cards.empty()) {
      return json_reply(model_body(cards.front(), *id));
    }
  }
  return errors_of(api_family::openai)
      .failure(fail_param(errc::model_not_found, "model", "the model '{}' does not exist",
                          id.value_or("?")));
}

} // namespace baton::gateway
