// `cluster model inspect`: a model's content, whether this machine runs it, and how fast.
#include "cluster/commands/commands.hpp"
#include "cluster/plan/plan.hpp"
#include "runtime/cpu/forward/bandwidth.hpp"
#include "runtime/cpu/forward/engine_cpu.hpp"
#include "runtime/model/open/open_model.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "runtime/text/tokenizer/vocabulary_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

namespace baton::cluster {
namespace {

struct tensor_count {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

// The facts about a file, as far as it can be read.
struct inspection {
  std::string path;
  std::string form;
  std::uint64_t file_bytes = 0;
  std::string architecture;
  std::map<std::string, tensor_count> types; // by name
  std::optional<model::description> model;
  std::uint64_t packed_bytes = 0; // its weights in memory, as packed by the CPU engine
  std::optional<text::vocabulary> vocabulary;
  std::uint32_t threads = 0;
  double read_gigabytes_per_second = 0;
  std::vector<std::string> obstacles; // why it does not run; empty: it runs
};

// For the default kv_cache_dtype.
std::uint64_t kv_bytes_per_token(const model::description& m) {
  const auto heads = m.largest_heads();
  const cpu::kv_shape shape{
      .layers = m.kv_layers(0, m.layer_count), .kv_heads = heads.kv_count, .head_size = heads.size};
  return shape.block_bytes() / cpu::kv_block_positions;
}

// Upper bound in tokens/s for one stream: the time to read the weights only.
double fastest(const inspection& i) {
  return i.read_gigabytes_per_second * 1e9 / static_cast<double>(i.model->step_bytes());
}

void look_at_language(const std::filesystem::path& path, inspection& out) {
  auto vocabulary = text::open_vocabulary(path);
  if (!vocabulary) {
    out.obstacles.push_back(vocabulary.error().message);
    return;
  }
  if (auto made = text::tokenizer::create(*vocabulary); !made)
    out.obstacles.push_back(made.error().message);
  out.vocabulary = *std::move(vocabulary);
}

result<inspection> inspect(const std::filesystem::path& path) {
  auto opened = model::open_model(path);
  if (!opened)
    return opened.error();
  const model::model_file& file = **opened;
  inspection out;
  out.path = path.string();
  out.form = file.form();
  out.file_bytes = file.size_bytes();
  const auto architecture = file.get_string("general.architecture", "unknown");
  out.architecture = architecture ? *architecture : "unknown";
  for (const auto& t : file.tensors()) {
    auto& count = out.types[std::string(model::tensor_type_traits(t.type).name)];
    ++count.tensors;
    count.bytes += t.size_bytes();
  }
  auto described = model::describe(file);
  if (!described) {
    out.obstacles.push_back(described.error().message);
  } else {
    if (auto packed = cpu::engine_cpu::examine(file, *described))
      out.packed_bytes = *packed;
    else
      out.obstacles.push_back(packed.error().message);
    out.model = *std::move(described);
  }
  look_at_language(path, out);
  const auto facts = facts_of_this_machine();
  if (out.packed_bytes > facts.memory_available_bytes)
    out.obstacles.push_back(fmt::format("its weights take {}, {} of memory are available",
                                        human_bytes(out.packed_bytes),
                                        human_bytes(facts.memory_available_bytes)));
  out.threads = static_cast<std::uint32_t>(std::max<std::size_t>(facts.physical_cores().size(), 1));
  if (out.obstacles.empty()) {
    constexpr int rounds = 3;
    auto measured = cpu::measure_read_bandwidth(out.threads, rounds);
    if (measured)
      out.read_gigabytes_per_second = *std::max_element(measured->begin(), measured->end());
  }
  return out;
}

void print(const char* what, const std::string& text) {
  std::printf("  %-10s %s\n", what, text.c_str());
}

// "of 32, 2 for keys and values in 20 layers; of 64, 1 in 4": where layers differ.
std::string uneven_heads(const model::description& m) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> layers; // by size and KV heads
  for (std::uint32_t i = 0; i < m.layer_count; ++i) {
    const auto heads = m.heads_of(i);
    ++layers[{heads.size, heads.kv_count}];
  }
  std::string text;
  for (const auto& [heads, count] : layers)
    text += fmt::format("{}of {}, {}{} in {} layers", text.empty() ? "" : "; ", heads.first,
                        heads.second, text.empty() ? " for keys and values" : "", count);
  return layers.size() > 1 ? text : "";
}

void print_model(const model::description& m, std::uint64_t packed_bytes) {
  print("model", fmt::format("{}: {}, {:.1f} M parameters, {}", m.name, m.architecture,
                             static_cast<double>(m.parameter_count) / 1e6, m.file_type));
  print("shape", fmt::format("{} layers, hidden {}, ffn {}, {} heads of {}, {} for keys and values",
                             m.layer_count, m.hidden_size, m.ffn_size, m.head_count, m.head_size,
                             m.kv_head_count));
  if (const auto text = uneven_heads(m); !text.empty())
    print("heads", text);
  if (m.expert_count > 0)
    print("experts", fmt::format("{} a layer, of width {}; a token uses {}", m.expert_count,
                                 m.expert_ffn_size, m.expert_used_count));
  if (const auto recurrent = m.recurrent_layers(0, m.layer_count); recurrent > 0)
    print("recurrent", fmt::format("{} of the layers; a sequence's state takes {}", recurrent,
                                   human_bytes(m.state_bytes(0, m.layer_count))));
  print("context", fmt::format("{} positions, vocabulary {}", m.context_length, m.vocab_size));
  print("memory", fmt::format("weights {}, KV {} a token, {} for a full context",
                              human_bytes(packed_bytes), human_bytes(kv_bytes_per_token(m)),
                              human_bytes(kv_bytes_per_token(m) * m.context_length)));
}

// Why the chat template cannot be used; empty: it can, or there is none.
std::string template_failure(const text::vocabulary& vocabulary) {
  if (vocabulary.chat_template.empty())
    return vocabulary.chat_template_failure;
  const auto parsed = text::chat_template::parse(vocabulary.chat_template);
  return parsed ? std::string() : parsed.error().message;
}

std::string template_text(const text::vocabulary& vocabulary) {
  const auto why = template_failure(vocabulary);
  if (vocabulary.chat_template.empty() && why.empty())
    return "no chat template";
  return why.empty() ? "with a chat template" : "a chat template that cannot be used: " + why;
}

void print_all(const inspection& i) {
  std::printf("%s: %s\n", i.path.c_str(), i.obstacles.empty() ? "runs" : "does not run here");
  for (const auto& why : i.obstacles)
    print("because", why);
  print("file", fmt::format("{}, {}, {}", human_bytes(i.file_bytes), i.form, i.architecture));
  if (i.model)
    print_model(*i.model, i.packed_bytes);
  std::string types;
  for (const auto& [name, count] : i.types)
    types += fmt::format("{}{} {} ({})", types.empty() ? "" : ", ", count.tensors, name,
                         human_bytes(count.bytes));
  print("tensors", types);
  if (i.vocabulary)
    print("tokenizer", fmt::format("{}{}{}, {} tokens, {}", i.vocabulary->model,
                                   i.vocabulary->pre.empty() ? "" : " ", i.vocabulary->pre,
                                   i.vocabulary->tokens.size(), template_text(*i.vocabulary)));
  if (i.model && i.read_gigabytes_per_second > 0)
    print("speed",
          fmt::format("at most {:.0f} tokens/s for one stream: {} threads read {:.1f} GB/s "
                      "here; several streams share the reading",
                      fastest(i), i.threads, i.read_gigabytes_per_second));
}

std::string json_of(const inspection& i) {
  nlohmann::ordered_json out{
      {"path", i.path}, {"runs", i.obstacles.empty()}, {"obstacles", i.obstacles},
      {"form", i.form}, {"file_bytes", i.file_bytes},  {"architecture", i.architecture}};
  for (const auto& [name, count] : i.types)
    out["tensors"][name] = {{"count", count.tensors}, {"bytes", count.bytes}};
  if (i.model) {
    const auto& m = *i.model;
    out["model"] = {{"name", m.name},
                    {"file_type", m.file_type},
                    {"parameters", m.parameter_count},
                    {"layers", m.layer_count},
                    {"hidden_size", m.hidden_size},
                    {"ffn_size", m.ffn_size},
                    {"heads", m.head_count},
                    {"kv_heads", m.kv_head_count},
                    {"head_size", m.head_size},
                    {"vocabulary", m.vocab_size},
                    {"context", m.context_length},
                    {"packed_bytes", i.packed_bytes},
                    {"step_bytes", m.step_bytes()},
                    {"kv_bytes_per_token", kv_bytes_per_token(m)}};
    if (m.expert_count > 0)
      out["model"]["experts"] = {{"count", m.expert_count},
                                 {"used", m.expert_used_count},
                                 {"ffn_size", m.expert_ffn_size},
                                 {"bytes", m.expert_bytes}};
  }
  const auto no_template = i.vocabulary ? template_failure(*i.vocabulary) : std::string();
  if (i.vocabulary)
    out["tokenizer"] = {
        {"model", i.vocabulary->model},
        {"pre", i.vocabulary->pre},
        {"tokens", i.vocabulary->tokens.size()},
        {"has_chat_template", !i.vocabulary->chat_template.empty() && no_template.empty()}};
  if (!no_template.empty())
    out["tokenizer"]["chat_template_failure"] = no_template;
  if (i.model && i.read_gigabytes_per_second > 0)
    out["speed"] = {{"threads", i.threads},
                    {"read_gigabytes_per_second", i.read_gigabytes_per_second},
                    {"tokens_per_second_at_most", fastest(i)}};
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace

int command_model_inspect(const std::filesystem::path& path, bool json) {
  auto found = inspect(path);
  if (!found) {
    std::fprintf(stderr, "error: %s\n", found.error().message.c_str());
    return 1;
  }
  if (json)
    std::printf("%s\n", json_of(*found).c_str());
  else
    print_all(*found);
  return found->obstacles.empty() ? 0 : 1;
}

} // namespace baton::cluster
