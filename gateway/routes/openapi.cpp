#include "gateway/request/openapi_schema.hpp"
#include "gateway/routes/http_api.hpp"

#include <algorithm>
#include <vector>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// A WebSocket begins as a GET.
std::string openapi_method(method_set methods) {
  return methods == method_set::post ? "post" : methods == method_set::remove ? "delete" : "get";
}

std::string openapi_path(const route_row& route) {
  std::string path(route.path);
  return path.size() > 1 && path.ends_with('/') ? path + "{id}" : path;
}

// The names of the parts of a path that stand for anything.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (auto at = path.find('{'); at != path.npos; at = path.find('{', at + 1)) {
    names.push_back(path.substr(at + 1, path.find('}', at) - at - 1));
  }
  return names;
}

ordered error_reference(const api_family& family) {
  return {{"$ref", "#/components/schemas/" + std::string(family.error_name)}};
}

// One schema, or any of several.
ordered any_of(std::vector<ordered> all) {
  return all.size() == 1 ? std::move(all.front()) : ordered{{"anyOf", std::move(all)}};
}

// The rows of the path and the method: several where the body decides which API answers.
using shared_route = std::vector<const route_row*>;

shared_route rows_like(const route_row& first) {
  shared_route all;
  for (const auto& row : http_api::routes()) {
    if (is_shared(row, first)) {
      all.push_back(&row);
    }
  }
  return all;
}

// The styles of all, sorted by their names.
ordered errors_of(shared_route rows) {
  std::sort(rows.begin(), rows.end(), [](const auto* one, const auto* other) {
    return one->family->error_name < other->family->error_name;
  });
  std::vector<ordered> all;
  for (const auto* row : rows) {
    all.push_back(error_reference(*row->family));
  }
  return any_of(std::move(all));
}

std::string summary_of(const shared_route& rows) {
  std::string all;
  for (const auto* row : rows) {
    all += all.empty() || row->doc.summary.empty() ? "" : "; ";
    all += row->doc.summary;
  }
  return all;
}

ordered content_of(std::string_view media, ordered schema, std::string_view or_media) {
  auto content = media_content(media, std::move(schema));
  if (!or_media.empty()) {
    content.update(media_content(or_media, ordered::object()));
  }
  return content;
}

ordered body_of(const shared_route& rows, const gateway_config& config) {
  std::vector<ordered> all;
  for (const auto* row : rows) {
    all.push_back(row->doc.body(config));
  }
  return any_of(std::move(all));
}

ordered answers_of(const shared_route& rows) {
  auto all = ordered::object();
  for (const auto* row : rows) {
    all.update(content_of(row->doc.media, ordered::object(), row->doc.or_media));
  }
  return all;
}

ordered operation_of(const shared_route& rows, const gateway_config& config) {
  const auto& route = *rows.front();
  const auto& doc = route.doc;
  ordered out{{"summary", summary_of(rows)}};
  if (route.access == route_access::open || route.access == route_access::page) {
    out["security"] = ordered::array();
  }
  for (const auto& name : names_in(openapi_path(route))) {
    out["parameters"].push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", type_schema("string")}});
  }
  if (doc.body) {
    const auto media = route.takes == body_media::any ? "*/*" : json_media;
    const auto behind = route.takes == body_media::json_and_bytes ? bytes_media : "";
    out["requestBody"] = {{"required", !doc.may_be_empty},
                          {"content", content_of(media, body_of(rows, config), behind)}};
  }
  if (route.methods == method_set::socket) {
    out["responses"]["101"] = {{"description", "The protocol is WebSocket from here on"}};
  } else {
    out["responses"]["200"] = {{"description", "The answer"}, {"content", answers_of(rows)}};
  }
  out["responses"]["default"] = {{"description", "A refusal, or what went wrong"},
                                 {"content", media_content(json_media, errors_of(rows))}};
  return out;
}

} // namespace

std::string openapi_body(const gateway_config& config) {
  auto paths = ordered::object(), schemas = ordered::object();
  for (const auto& route : http_api::routes()) {
    const auto rows = rows_like(route);
    if (rows.front() == &route) {
      paths[openapi_path(route)][openapi_method(route.methods)] = operation_of(rows, config);
    }
    schemas[std::string(route.family->error_name)] = route.family->error_schema();
  }
  ordered out{{"openapi", "3.1.0"},
              {"info", {{"title", "Baton"}, {"version", config.build}}},
              {"paths", std::move(paths)},
              {"components",
               {{"schemas", std::move(schemas)},
                {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  if (config.keys) {
    out["security"] = {{{"key", ordered::array()}}};
  }
  return out.dump(-1, ' ', false, ordered::error_handler_t::replace);
}

} // namespace baton::gateway
