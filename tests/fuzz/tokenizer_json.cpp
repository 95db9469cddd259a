// tokenizer.json of a model directory, and texts through the resulting tokenizer.
#include "runtime/text/bpe/vocabulary_checkpoint.hpp"
#include "runtime/text/tokenizer/tokenizer.hpp"
#include "tests/fuzz/input.hpp"

using namespace baton;
using namespace baton::text;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = model::parse_json_object(fuzz::text_of(data, size), "tokenizer.json");
  if (!parsed)
    return 0;
  const auto words = vocabulary_from_json(*parsed);
  if (!words)
    return 0;
  const auto made = tokenizer::create(*words);
  if (!made)
    return 0;
  encode_scratch scratch(/*cached_pieces=*/64); // the default takes longer than the text
  for (const std::string_view text :
       {"", " The  quick\n\tfox's 1234 \xe4\xb8\xad<|im_end|>", "\xff\xc3 \xf0\x9f\x98\x80</s>"}) {
    const auto ids = made->encode_prompt(text, true, true, scratch);
    if (ids)
      ENSURE(made->decode(*ids, /*skip_special=*/true), "ids of its own that it does not know");
  }
  return 0;
}
