// The tiny llama model of tests/support/gguf_writer.hpp: sizes from the options, weights from a
// seed, a vocabulary and a chat template like SmolLM2's.
#include "runtime/model/description.hpp"
#include "tests/support/gguf_writer.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <numeric>

namespace baton::testing {
namespace {

constexpr std::array<std::string_view, 3> control_tokens = {"<|endoftext|>", "<|im_start|>",
                                                            "<|im_end|>"};
// In rank order; every part is a byte token or an earlier merge. "\u0120" is the byte token of a
// space, "\u010a" of a newline.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> merges = {{
    {"h", "e"},
    {"\u0120", "t"},
    {"\u0120t", "he"},
    {"i", "n"},
    {"e", "r"},
    {"a", "n"},
    {"\u0120", "a"},
    {"o", "u"},
    {"r", "e"},
    {"l", "l"},
    {"he", "ll"},
    {"hell", "o"},
    {"\u0120", "w"},
    {"o", "r"},
    {"\u010a", "\u010a"},
    {"an", "d"},
}};
constexpr std::uint32_t byte_count = 256;
constexpr std::int32_t normal_token = 1; // tokenizer.ggml.token_type
constexpr std::int32_t control_token = 3;
constexpr std::int32_t unused_token = 5;

constexpr std::string_view chat_template =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

std::string utf8(std::uint32_t code_point) { // below U+0800
  if (code_point < 0x80) {
    return {static_cast<char>(code_point)};
  }
  return {static_cast<char>(0xC0U | code_point >> 6U),
          static_cast<char>(0x80U | (code_point & 63U))};
}

// GPT-2's byte tokens in its order: the printable bytes as themselves, then the others from U+0100.
std::vector<std::string> byte_tokens() {
  const auto is_itself = [](std::uint32_t b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  std::vector<std::string> tokens;
  for (std::uint32_t b = 0; b < byte_count; ++b) {
    if (is_itself(b)) {
      tokens.push_back(utf8(b));
    }
  }
  for (std::uint32_t other = 0; tokens.size() < byte_count; ++other) {
    tokens.push_back(utf8(0x100 + other));
  }
  return tokens;
}

void set_tokenizer(gguf_writer& out, std::uint32_t vocab) {
  std::vector<std::string> tokens(control_tokens.begin(), control_tokens.end());
  std::vector<std::int32_t> types(tokens.size(), control_token);
  for (auto& token : byte_tokens()) {
    tokens.push_back(std::move(token));
  }
  std::vector<std::string> merge_lines;
  for (const auto& [left, right] : merges) {
    merge_lines.push_back(fmt::format("{} {}", left, right));
    tokens.push_back(fmt::format("{}{}", left, right));
  }
  types.resize(tokens.size(), normal_token);
  for (std::uint32_t i = 0; tokens.size() < vocab; ++i) {
    tokens.push_back(fmt::format("<|unused_{}|>", i));
  }
  types.resize(tokens.size(), unused_token);
  out.set_string("tokenizer.ggml.model", "gpt2")
      .set_string("tokenizer.ggml.pre", "smollm")
      .set_strings("tokenizer.ggml.tokens", tokens)
      .set_i32s("tokenizer.ggml.token_type", types)
      .set_strings("tokenizer.ggml.merges", merge_lines)
      .set_u32("tokenizer.ggml.bos_token_id", 1)
      .set_u32("tokenizer.ggml.eos_token_id", 2)
      .set_u32("tokenizer.ggml.unknown_token_id", 0)
      .set_u32("tokenizer.ggml.padding_token_id", 2)
      .set_bool("tokenizer.ggml.add_bos_token", false)
      .set_bool("tokenizer.ggml.add_space_prefix", false)
      .set_string("tokenizer.chat_template", chat_template);
}

// splitmix64 (Steele, Lea, Flood 2014): the same weights from the same seed everywhere.
class random_weights {
public:
  explicit random_weights(std::uint64_t seed) : state_(seed) {}

  // Uniform with mean `center` and standard deviation `deviation`.
  std::vector<float> draw(std::uint64_t count, float center, float deviation) {
    std::vector<float> values(count);
    for (auto& value : values) {
      const auto unit = static_cast<float>(next() >> 40U) * 0x1p-24F; // [0, 1)
      value = center + deviation * std::sqrt(12.0F) * (unit - 0.5F);
    }
    return values;
  }

private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
    return z ^ (z >> 31U);
  }
  std::uint64_t state_;
};

model::description shape_of(const tiny_llama& o) {
  model::description d;
  d.layer_count = o.layers;
  d.layers.assign(o.layers, {.window = 0, .rope = 0, .is_mixture = o.experts > 0});
  d.hidden_size = o.hidden;
  d.ffn_size = o.ffn;
  d.expert_count = o.experts;
  d.expert_ffn_size = o.ffn;
  d.head_count = o.heads;
  d.kv_head_count = o.kv_heads;
  d.head_size = o.hidden / o.heads;
  d.vocab_size = o.vocab;
  d.has_tied_embeddings = o.has_tied_embeddings;
  return d;
}

result<void> check(const tiny_llama& o) {
  const auto block = model::tensor_type_traits(o.type).block_elements;
  const auto head_block =
      model::tensor_type_traits(o.embedding_type.value_or(o.type)).block_elements;
  if (o.layers == 0 || o.heads == 0 || o.kv_heads == 0 || o.hidden == 0 || o.ffn == 0 ||
      o.context == 0) {
    return fail(errc::invalid_value, "a size of the tiny model is zero");
  }
  if (o.heads % o.kv_heads != 0 || o.hidden % (2 * o.heads) != 0) {
    return fail(errc::invalid_value, "hidden {}, heads {} and kv_heads {} do not divide", o.hidden,
                o.heads, o.kv_heads);
  }
  if (o.hidden % block != 0 || o.ffn % block != 0 || o.hidden % head_block != 0) {
    return fail(errc::invalid_value, "hidden {} and ffn {} must be multiples of {}", o.hidden,
                o.ffn, std::max(block, head_block));
  }
  if (o.vocab < tiny_vocab_min()) {
    return fail(errc::invalid_value, "the vocabulary needs {} tokens", tiny_vocab_min());
  }
  return {};
}

// general.file_type: the number of "mostly of this type" in the specification.
std::uint32_t file_type_of(model::tensor_type type) {
  using enum model::tensor_type;
  switch (type) {
  case q8_0:
    return 7;
  case q5_0:
    return 8;
  case q5_1:
    return 9;
  case q4_k:
    return 14;
  case q5_k:
    return 16;
  case q6_k:
    return 18;
  case q2_k:
    return 10;
  case q3_k:
    return 12;
  case iq2_xxs:
    return 19;
  case iq2_xs:
    return 20;
  case iq3_xxs:
    return 23;
  case iq1_s:
    return 24;
  case iq4_nl:
    return 25;
  case iq3_s:
    return 26;
  case iq2_s:
    return 28;
  case iq4_xs:
    return 30;
  case iq1_m:
    return 31;
  case bf16:
    return 32;
  case tq1_0:
    return 36;
  case tq2_0:
    return 37;
  case mxfp4:
    return 38;
  default:
    return static_cast<std::uint32_t>(type); // the same number for the older types
  }
}

void set_sizes(gguf_writer& out, const tiny_llama& o) {
  out.set_string("general.architecture", "llama")
      .set_string("general.type", "model")
      .set_string("general.name", o.name)
      .set_u32("general.file_type", file_type_of(o.type))
      .set_u32("llama.block_count", o.layers)
      .set_u32("llama.context_length", o.context)
      .set_u32("llama.embedding_length", o.hidden)
      .set_u32("llama.feed_forward_length", o.ffn)
      .set_u32("llama.attention.head_count", o.heads)
      .set_u32("llama.attention.head_count_kv", o.kv_heads)
      .set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F)
      .set_f32("llama.rope.freq_base", 10000.0F)
      .set_u32("llama.rope.dimension_count", o.hidden / o.heads)
      .set_u32("llama.vocab_size", o.vocab);
  if (o.experts > 0)
    out.set_u32("llama.expert_count", o.experts).set_u32("llama.expert_used_count", o.experts_used);
}

// Zeroes the head's rows of end tokens and unused tokens.
void silence_special_rows(std::vector<float>& head, const tiny_llama& o) {
  const std::size_t first_unused = tiny_vocab_min();
  for (std::size_t row = 0; row < o.vocab; ++row) {
    if (row < control_tokens.size() || row >= first_unused) {
      std::fill_n(head.begin() + static_cast<std::ptrdiff_t>(row * o.hidden), o.hidden, 0.0F);
    }
  }
}

} // namespace

std::uint32_t tiny_vocab_min() {
  return byte_count + control_tokens.size() + merges.size();
}

result<gguf_writer> tiny_llama_writer(const tiny_llama& options) {
  if (auto r = check(options); !r) {
    return r.error();
  }
  gguf_writer out;
  set_sizes(out, options);
  set_tokenizer(out, options.vocab);
  random_weights weights(options.seed);
  const auto add = [&](const model::tensor_requirement& tensor) {
    const bool is_norm = tensor.shape.size() == 1;
    const bool is_wide = tensor.name == "token_embd.weight" || tensor.name == "output.weight";
    const bool is_router = tensor.name.ends_with("ffn_gate_inp.weight");
    const auto count = std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::uint64_t{1},
                                       std::multiplies());
    // A matrix keeps the variance of its input; embeddings have variance 1.
    const float deviation = is_norm ? 0.1F
                            : tensor.name == "token_embd.weight"
                                ? 1.0F
                                : 1.0F / std::sqrt(static_cast<float>(tensor.shape[0]));
    auto values = weights.draw(count, is_norm ? 1.0F : 0.0F, deviation);
    if (tensor.name == "output.weight" && options.never_ends) {
      silence_special_rows(values, options);
    }
    const auto type = is_norm || is_router ? model::tensor_type::f32 // as converters write it
                      : is_wide            ? options.embedding_type.value_or(options.type)
                                           : options.type;
    out.add_tensor(tensor.name, type, tensor.shape, values);
  };
  const auto shape = shape_of(options);
  add(model::input_tensors(shape).front());
  for (std::uint32_t layer = 0; layer < options.layers; ++layer) {
    for (const auto& tensor : model::layer_tensors(shape, layer)) {
      add(tensor);
    }
  }
  const auto output = model::output_tensors(shape);
  add(output.front());
  if (!options.has_tied_embeddings) {
    add(output.back());
  }
  return out;
}

result<void> write_tiny_llama(const std::filesystem::path& path, const tiny_llama& options) {
  const auto writer = tiny_llama_writer(options);
  return writer ? writer->write(path) : writer.error();
}

} // namespace baton::testing
