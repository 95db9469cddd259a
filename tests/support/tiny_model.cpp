// tiny_model OUT.gguf [--layers N] [--hidden N] ...: writes the tiny random llama model of
// gguf_writer.hpp, for system tests in shell and Python.
#include "tests/support/gguf_writer.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdio>

namespace {

using baton::errc;
using baton::fail;
using baton::result;
using baton::testing::tiny_llama;

constexpr std::string_view usage =
    "usage: tiny_model OUT.gguf [--layers N] [--hidden N] [--heads N] [--kv-heads N] [--ffn N]\n"
    "                  [--vocab N] [--context N] [--seed N] [--name TEXT] [--type F32|Q8_0|...]\n"
    "                  [--embedding-type TYPE] [--tied 0|1] [--never-ends 0|1]\n"
    "Writes a random llama model with a byte-level vocabulary. The same flags give the same "
    "file.\n";

template <class T>
result<void> read_number(T& target, std::string_view flag, std::string_view text) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), target);
  if (code != std::errc() || end != text.data() + text.size()) {
    return fail(errc::invalid_value, "{}: '{}' is not a number in range", flag, text);
  }
  return {};
}

result<baton::model::tensor_type> type_named(std::string_view name) {
  for (const auto& row : baton::model::tensor_type_table()) {
    if (row.is_supported && row.name == name) {
      return row.type;
    }
  }
  return fail(errc::invalid_value, "type '{}' is not one of {}", name,
              baton::model::supported_tensor_types());
}

result<void> read_flag(tiny_llama& o, std::string_view flag, std::string_view text) {
  const std::pair<std::string_view, std::uint32_t*> sizes[] = {
      {"--layers", &o.layers},     {"--hidden", &o.hidden}, {"--heads", &o.heads},
      {"--kv-heads", &o.kv_heads}, {"--ffn", &o.ffn},       {"--vocab", &o.vocab},
      {"--context", &o.context},
  };
  for (const auto& [name, target] : sizes) {
    if (flag == name) {
      return read_number(*target, flag, text);
    }
  }
  if (flag == "--seed") {
    return read_number(o.seed, flag, text);
  }
  if (flag == "--name") {
    o.name = text;
    return {};
  }
  if (flag == "--tied" || flag == "--never-ends") {
    if (text != "0" && text != "1") {
      return fail(errc::invalid_value, "{}: '{}' is neither 0 nor 1", flag, text);
    }
    (flag == "--tied" ? o.has_tied_embeddings : o.never_ends) = text == "1";
    return {};
  }
  if (flag == "--type" || flag == "--embedding-type") {
    const auto type = type_named(text);
    if (!type) {
      return type.error();
    }
    if (flag == "--type") {
      o.type = *type;
    } else {
      o.embedding_type = *type;
    }
    return {};
  }
  return fail(errc::unknown_key, "unknown flag '{}'", flag);
}

result<void> run(std::span<char*> arguments) {
  if (arguments.empty() || std::string_view(arguments[0]).starts_with("--")) {
    return fail(errc::invalid_value, "the first argument must be the file to write");
  }
  tiny_llama options;
  for (std::size_t i = 1; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) {
      return fail(errc::invalid_value, "{} needs a value", arguments[i]);
    }
    if (auto r = read_flag(options, arguments[i], arguments[i + 1]); !r) {
      return r;
    }
  }
  return baton::testing::write_tiny_llama(arguments[0], options);
}

} // namespace

int main(int argc, char** argv) {
  if (const auto r = run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1)); !r) {
    fmt::print(stderr, "tiny_model: {}\n{}", r.error().message, usage);
    return 2;
  }
  return 0;
}
