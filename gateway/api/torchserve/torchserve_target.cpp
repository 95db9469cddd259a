#include "gateway/api/torchserve/torchserve_target.hpp"

#include "gateway/base/http_header.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace baton::gateway {
namespace {

using is = torchserve_operation;

constexpr std::size_t segments_max = 16;
constexpr std::size_t parameters_max = 64;
constexpr std::string_view reads = "GET, HEAD";

error bad_encoding() {
  return fail(errc::invalid_request, "a '%' in the address is not followed by two hex digits");
}

template <class Take>
bool split(std::string_view text, char by, Take take) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(by, begin), text.size());
    if (!take(text.substr(begin, end - begin))) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

// A space is a '+' in a form.
std::optional<std::string> form_decoded(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return percent_decoded(spaced);
}

torchserve_route route_to(is what, std::string_view name, std::string_view methods,
                          std::string model = {}, std::optional<std::string> version = {},
                          std::string suffix = {}) {
  return {.is = what,
          .name = name,
          .methods = methods,
          .model = std::move(model),
          .suffix = std::move(suffix),
          .version = std::move(version)};
}

torchserve_route prediction(const std::vector<std::string>& path) {
  std::string suffix;
  for (std::size_t i = 3; i < path.size(); ++i) {
    suffix += (i == 3 ? "" : "/") + path[i];
  }
  const bool is_list = suffix == "v1/models";
  return route_to(is::predict, "/predictions/", is_list ? "GET, HEAD, POST, PUT" : "POST, PUT",
                  path[1], path.size() > 2 ? std::optional(path[2]) : std::nullopt, suffix);
}

// KServe v1: "v1", "models", "NAME:predict".
torchserve_route kserve_inference(const std::string& last) {
  const auto colon = last.rfind(':');
  const auto verb = colon == last.npos ? std::string() : last.substr(colon + 1);
  if (verb == "predict") {
    return route_to(is::predict_kserve, "/v1/models/", "POST", last.substr(0, colon));
  }
  return verb == "explain" ? route_to(is::explain, "/v1/models/", "POST", last.substr(0, colon))
                           : torchserve_route();
}

torchserve_route at_inference(const torchserve_target& target) {
  const auto& path = target.path;
  const auto& first = path.front();
  if (first == "ping" && path.size() == 1) {
    return route_to(is::ping, "/ping", reads);
  }
  if (first == "predictions" && path.size() > 1) {
    return prediction(path);
  }
  if (first == "explanations" && path.size() > 1) {
    return route_to(is::explain, "/explanations/", "POST, PUT", path[1],
                    path.size() > 2 ? std::optional(path[2]) : std::nullopt);
  }
  if (first == "v1" && path.size() == 3 && path[1] == "models") {
    return kserve_inference(path[2]);
  }
  if (first == "invocations" && path.size() == 1) { // SageMaker's route
    return route_to(is::predict, "/invocations", "POST", target.find("model_name").value_or(""));
  }
  if (first == "models" && path.size() == 3 && path[2] == "invoke") {
    return route_to(is::predict, "/models/", "POST", path[1]);
  }
  return {};
}

torchserve_route at_management(const torchserve_target& target) {
  const auto& path = target.path;
  if (path[0] == "token" && path.size() == 1) {
    return route_to(is::renew_token, "/token", reads);
  }
  if (path[0] == "v1" && path.size() == 3 && path[1] == "models") {
    return route_to(is::kserve_ready, "/v1/models/", reads, path[2]);
  }
  if (path[0] != "models" || path.size() > 4) {
    return {};
  }
  if (path.size() == 1) {
    return route_to(is::list_models, "/models", "GET, HEAD, POST");
  }
  const auto version = path.size() > 2 ? std::optional(path[2]) : target.find("model_version");
  if (path.size() < 4) {
    return route_to(is::manage_model, "/models/", "GET, HEAD, PUT, DELETE", path[1], version);
  }
  return path[3] == "set-default" ? route_to(is::set_default, "/models/", "PUT", path[1], version)
                                  : torchserve_route();
}

} // namespace

std::optional<std::string> torchserve_target::find(std::string_view name) const {
  const auto it =
      std::find_if(query.begin(), query.end(), [&](const auto& p) { return p.first == name; });
  return it == query.end() ? std::nullopt : std::optional(it->second);
}

std::vector<std::string> torchserve_target::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : query) {
    if (key == name) {
      values.push_back(value);
    }
  }
  return values;
}

result<std::int32_t> torchserve_target::integer(std::string_view name,
                                                std::int32_t otherwise) const {
  const auto text = find(name);
  if (!text) {
    return otherwise;
  }
  std::int32_t value = 0;
  const auto* end = text->data() + text->size();
  const auto [at, ec] = std::from_chars(text->data(), end, value);
  if (ec != std::errc{} || at != end || text->empty()) {
    return fail_param(errc::invalid_value, name, "'{}' must be an integer of 32 bits, not '{}'",
                      name, text->substr(0, 64));
  }
  return value;
}

result<torchserve_target> read_torchserve_target(std::string_view target) {
  torchserve_target out;
  const auto path = path_of(target);
  const bool is_path = split(path.substr(path.starts_with('/') ? 1 : 0), '/', [&](auto segment) {
    auto text = percent_decoded(segment);
    if (!text) {
      return false;
    }
    out.path.push_back(*std::move(text));
    return out.path.size() <= segments_max;
  });
  while (!out.path.empty() && out.path.back().empty()) {
    out.path.pop_back();
  }
  auto query = target.substr(path.size());
  query = query.substr(0, query.find('#'));
  const bool is_query = !query.starts_with('?') || split(query.substr(1), '&', [&](auto pair) {
    const auto equals = std::min(pair.find('='), pair.size());
    auto key = form_decoded(pair.substr(0, equals));
    auto value = form_decoded(pair.substr(std::min(equals + 1, pair.size())));
    const bool is_right = key && value && out.query.size() < parameters_max;
    if (is_right && !pair.empty()) {
      out.query.emplace_back(*std::move(key), *std::move(value));
    }
    return is_right;
  });
  if (out.path.size() > segments_max || out.query.size() >= parameters_max) {
    return fail(errc::invalid_request, "the address has too many parts");
  }
  if (!is_path || !is_query) {
    return bad_encoding();
  }
  return out;
}

bool torchserve_route::takes(std::string_view method) const noexcept {
  if (method == "OPTIONS") {
    return is != torchserve_operation::none;
  }
  bool found = false;
  split(methods, ' ', [&](std::string_view token) {
    found = found || token.substr(0, token.find(',')) == method;
    return true;
  });
  return found && !method.empty();
}

torchserve_route find_torchserve_route(listener_kind listener, const torchserve_target& target) {
  if (target.path.empty() || (target.path.size() == 1 && target.path[0] == "api-description")) {
    return route_to(is::describe_api, "/", reads);
  }
  if (listener == listener_kind::torchserve_inference) {
    return at_inference(target);
  }
  if (listener == listener_kind::torchserve_management) {
    return at_management(target);
  }
  const bool is_metrics = target.path.size() == 1 && target.path[0] == "metrics";
  return is_metrics ? route_to(is::metrics, "/metrics", reads) : torchserve_route();
}

torchserve_found find_torchserve(const http_call& call) {
  auto target = read_torchserve_target(call.target);
  auto route = target ? find_torchserve_route(call.listener, *target) : torchserve_route{};
  return {std::move(target), std::move(route)};
}

} // namespace baton::gateway
