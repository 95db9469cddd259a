#include "gateway/api/ollama/ollama_model.hpp"

#include "gateway/api/ollama/ollama_response.hpp"
#include "gateway/base/json_text.hpp"
#include "schema/digest.hpp"

#include <algorithm>
#include <utility>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::string_view latest = ":latest";
constexpr std::string_view never = "9999-12-31T23:59:59Z"; // when a model is unloaded

bool has_tag(std::string_view name) noexcept {
  const auto colon = name.rfind(':');
  return colon != name.npos && name.find('/', colon) == name.npos;
}

std::string size_text(std::uint64_t parameters) {
  constexpr double thousand = 1e3, million = 1e6, billion = 1e9;
  const auto count = static_cast<double>(parameters);
  if (count >= billion) {
    return fmt::format("{:.1f}B", count / billion);
  }
  if (count >= million) {
    return fmt::format("{:.2f}M", count / million);
  }
  return count >= thousand ? fmt::format("{:.2f}K", count / thousand)
                           : fmt::format("{}", parameters);
}

// 64 hexadecimal digits: clients show the first twelve.
std::string digest_text(const model_card& card) {
  std::string all;
  for (int part = 0; part < 4; ++part) {
    all += fmt::format("{:016x}",
                       digest_of(fmt::format("{} {} {} {} {}", part, card.name, card.architecture,
                                             card.parameters, card.vocabulary_size)));
  }
  return all;
}

ordered details_json(const model_card& card) {
  return {{"parent_model", ""},
          {"format", ""},
          {"family", card.architecture},
          {"families", {card.architecture}},
          {"parameter_size", size_text(card.parameters)},
          {"quantization_level", "unknown"}};
}

std::string date_text(const model_card& card) {
  return rfc3339(std::chrono::system_clock::time_point(std::chrono::seconds(card.created)));
}

ordered entry_json(const listed_model& model) {
  const auto name = tagged_name(model.name);
  return {{"name", name},
          {"model", name},
          {"modified_at", date_text(model.card)},
          {"size", 0},
          {"digest", digest_text(model.card)},
          {"details", details_json(model.card)}};
}

// Ollama's form: a name and a value in each line.
std::string parameters_text(const model_card& card) {
  std::string all;
  const auto add = [&all](std::string_view name, const auto& value) {
    if (value) {
      all += fmt::format("{}{:<30} {}", all.empty() ? "" : "\n", name, *value);
    }
  };
  add("temperature", card.sampling.temperature);
  add("top_k", card.sampling.top_k);
  add("top_p", card.sampling.top_p);
  add("min_p", card.sampling.min_p);
  add("repeat_penalty", card.sampling.repetition_penalty);
  add("num_predict", card.sampling.max_tokens);
  return all;
}

} // namespace

std::string tagged_name(std::string_view name) {
  return std::string(name) + std::string(has_tag(name) ? std::string_view() : latest);
}

std::optional<std::string> served_name(const std::vector<std::string>& served,
                                       std::string_view asked) {
  for (const auto& name : served) {
    if (name == asked) {
      return name;
    }
  }
  for (const auto& name : served) {
    if (tagged_name(name) == tagged_name(asked)) {
      return name;
    }
  }
  return std::nullopt;
}

std::string ollama_tags_body(const std::vector<listed_model>& models) {
  auto all = ordered::array();
  for (const auto& model : models) {
    all.push_back(entry_json(model));
  }
  return json_text(ordered{{"models", std::move(all)}});
}

std::string ollama_ps_body(const std::vector<listed_model>& models) {
  auto all = ordered::array();
  for (const auto& model : models) {
    auto entry = entry_json(model);
    entry.erase("modified_at");
    entry["expires_at"] = model.expires_at ? rfc3339(*model.expires_at) : std::string(never);
    entry["size_vram"] = 0;
    entry["context_length"] = model.card.max_model_len;
    all.push_back(std::move(entry));
  }
  return json_text(ordered{{"models", std::move(all)}});
}

std::string ollama_show_body(const listed_model& model) {
  const auto& card = model.card;
  auto capabilities = ordered::array({"completion"});
  if (card.has_chat_template) {
    capabilities.push_back("tools");
  }
  const auto& family = card.architecture;
  return json_text(ordered{
      {"modelfile", ""},
      {"parameters", parameters_text(card)},
      {"template", ""},
      {"details", details_json(card)},
      {"model_info",
       {{"general.architecture", family},
        {"general.basename", card.name},
        {"general.parameter_count", card.parameters},
        {fmt::format("{}.context_length", family), card.max_model_len},
        {fmt::format("{}.vocab_size", family), card.vocabulary_size}}},
      {"capabilities", std::move(capabilities)},
      {"modified_at", date_text(card)},
  });
}

std::string ollama_version_body(std::string_view build) {
  return json_text(ordered{{"version", ollama_version}, {"server", build}});
}

std::string ollama_pull_body() {
  return R"({"status":"success"})";
}

} // namespace baton::gateway
