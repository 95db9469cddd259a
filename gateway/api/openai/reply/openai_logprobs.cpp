#include "gateway/api/openai/reply/openai_logprobs.hpp"

#include "runtime/text/unicode/utf8.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace baton::gateway {
namespace {

using ordered = nlohmann::ordered_json;

// OpenAI's JSON value for minus infinity.
constexpr double least_logprob = -9999.0;

double shown_logprob(float logprob) {
  return std::isfinite(logprob) ? static_cast<double>(logprob) : least_logprob;
}

ordered bytes_json(const std::string& text) {
  auto bytes = ordered::array();
  for (const char c : text) {
    bytes.push_back(static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return bytes;
}

// As in vLLM.
std::string name_of(const logprob_entry& e, bool names_by_id) {
  return names_by_id ? fmt::format("token_id:{}", e.token) : e.text;
}

ordered chat_entry(const logprob_entry& e, bool names_by_id) {
  return {{"token", name_of(e, names_by_id)},
          {"logprob", shown_logprob(e.logprob)},
          {"bytes", bytes_json(e.text)}};
}

ordered chat_logprobs(const std::vector<token_detail>& details, bool names_by_id) {
  auto content = ordered::array();
  for (const auto& d : details) {
    auto entry = chat_entry(d.chosen, names_by_id);
    auto top = ordered::array();
    for (const auto& t : d.top) {
      top.push_back(chat_entry(t, names_by_id));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

ordered completion_logprobs(const std::vector<token_detail>& prompt,
                            const std::vector<token_detail>& details, std::size_t offset,
                            bool names_by_id) {
  auto texts = ordered::array();
  auto values = ordered::array();
  auto tops = ordered::array();
  auto offsets = ordered::array();
  const auto add = [&](const token_detail& d, bool has_value) {
    texts.push_back(name_of(d.chosen, names_by_id));
    values.push_back(has_value ? ordered(shown_logprob(d.chosen.logprob)) : ordered(nullptr));
    auto top = ordered::object();
    for (const auto& t : d.top) {
      top[name_of(t, names_by_id)] = shown_logprob(t.logprob);
    }
    tops.push_back(has_value ? std::move(top) : ordered(nullptr));
    offsets.push_back(offset);
    offset += text::utf8_characters(d.chosen.text);
  };
  for (const auto& d : prompt) {
    add(d, /*has_value=*/&d != &prompt.front());
  }
  for (const auto& d : details) {
    add(d, /*has_value=*/true);
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(values)},
          {"tokens", std::move(texts)},
          {"top_logprobs", std::move(tops)}};
}

} // namespace

nlohmann::ordered_json logprobs_of(const logprobs_style& style,
                                   const std::vector<token_detail>& details, std::size_t offset,
                                   const std::vector<token_detail>& prompt) {
  return style.api == openai_api::chat
             ? chat_logprobs(details, style.names_tokens_by_id)
             : completion_logprobs(prompt, details, offset, style.names_tokens_by_id);
}

void add_prompt(std::vector<token_detail>& prompt, const chunk& c) {
  const auto had = prompt.size() - std::min<std::size_t>(prompt.size(), c.prompt_from);
  if (c.prompt_from <= prompt.size() && had < c.prompt_details.size()) {
    prompt.insert(prompt.end(), c.prompt_details.begin() + static_cast<std::ptrdiff_t>(had),
                  c.prompt_details.end());
  }
}

std::string echo_text(const std::string& asked, const std::vector<token_detail>& prompt) {
  auto text = asked;
  if (text.empty()) {
    for (const auto& d : prompt) {
      text += d.chosen.is_control ? std::string() : d.chosen.text;
    }
  }
  return text;
}

} // namespace baton::gateway
