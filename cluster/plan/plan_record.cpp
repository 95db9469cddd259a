#include "cluster/plan/plan_record.hpp"

#include <nlohmann/json.hpp>

namespace baton::cluster {
namespace {

constexpr std::string_view plan_name = "plan";

std::optional<network_record> network_from(const nlohmann::json& json) {
  network_record n;
  n.host = json.at("host").get<std::string>();
  n.root_host = json.at("root_host").get<std::string>();
  n.port = json.at("port").get<std::uint16_t>();
  n.root_key = json.at("root_key").get<std::string>();
  n.key_file = json.at("key_file").get<std::string>();
  return n;
}

nlohmann::json json_of(const generation& g) {
  return {{"number", g.number}, {"stages", g.stages}, {"without", g.without}, {"width", g.width}};
}

generation generation_from(const nlohmann::json& json) {
  return {json.at("number").get<std::uint32_t>(), json.at("stages").get<std::uint32_t>(),
          json.at("without").get<std::vector<std::string>>(),
          json.at("width").get<std::uint32_t>()};
}

nlohmann::json json_of(std::uint32_t number, const pipeline_record& p) {
  nlohmann::json json{{"pipeline", number}, {"model_identity", p.model_identity}};
  if (p.generations) {
    json["generations"] = cluster::json_of(p.generations->now);
    json["generations"]["last"] = p.generations->last;
  }
  return json;
}

pipeline_record pipeline_from(const nlohmann::json& json) {
  pipeline_record p{json.at("model_identity").get<std::uint64_t>(), std::nullopt};
  if (json.contains("generations"))
    p.generations = recorded_generations{generations_from(json.at("generations")),
                                         json.at("generations").at("last").get<std::uint32_t>()};
  return p;
}

} // namespace

nlohmann::json json_of(const generations& now) {
  nlohmann::json json{{"pipeline", now.pipeline}, {"serving", json_of(now.serving)}};
  if (now.coming)
    json["coming"] = json_of(*now.coming);
  return json;
}

generations generations_from(const nlohmann::json& json) {
  generations now;
  now.pipeline = json.at("pipeline").get<std::uint32_t>();
  now.serving = generation_from(json.at("serving"));
  if (json.contains("coming"))
    now.coming = generation_from(json.at("coming"));
  return now;
}

nlohmann::json json_of(const machines& known) {
  auto json = nlohmann::json::object();
  for (const auto& [name, facts] : known)
    json[name] = json_of(facts);
  return json;
}

std::optional<machines> machines_from(const nlohmann::json& json) {
  if (!json.is_object())
    return std::nullopt;
  machines known;
  for (const auto& [name, facts] : json.items()) {
    auto read = machine_from(facts);
    if (!read)
      return std::nullopt;
    known.emplace(name, std::move(*read));
  }
  return known;
}

std::optional<machines> machines_from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? std::nullopt : machines_from(json);
}

result<void> record_plan(const run_dir& dir, const plan_record& plan) {
  nlohmann::json json{
      {"build", plan.build}, {"members", json_of(plan.members)}, {"machines", json_of(plan.known)}};
  if (plan.network)
    json["network"] = {{"host", plan.network->host},
                       {"root_host", plan.network->root_host},
                       {"port", plan.network->port},
                       {"root_key", plan.network->root_key},
                       {"key_file", plan.network->key_file.string()}};
  json["pipelines"] = nlohmann::json::array();
  for (const auto& [number, p] : plan.pipelines)
    json["pipelines"].push_back(json_of(number, p));
  return dir.write(plan_name, json.dump() + "\n");
}

// A file of another form comes from another build; callers refuse its cluster for that.
std::optional<plan_record> recorded_plan(const run_dir& dir) {
  const auto text = dir.read(plan_name);
  if (!text)
    return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(*text);
    plan_record plan;
    plan.build = json.at("build").get<std::string>();
    plan.members = membership_from(json.at("members"));
    auto known = machines_from(json.at("machines"));
    if (!known)
      return std::nullopt;
    plan.known = std::move(*known);
    if (json.contains("network"))
      plan.network = network_from(json.at("network"));
    for (const auto& p : json.at("pipelines")) {
      auto one = pipeline_from(p);
      if (one.generations && !check_generations(*one.generations))
        return std::nullopt;
      plan.pipelines.emplace(p.at("pipeline").get<std::uint32_t>(), std::move(one));
    }
    return plan;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

} // namespace baton::cluster
