// The patterns of each family, as in the models' own tokenizer.json files. The names are those of
// GGUF files. Add a row together with its cases in tests/data/text/pre_tokenizer_pieces.json.
#include "runtime/text/pre_tokenizers/pre_tokenizer.hpp"

#include <array>

namespace baton::text {

namespace {

using pattern_text = std::string_view;
using family_name = std::string_view;

// GPT-2's pattern: the default of every byte-level tokenizer that names none.
#define GPT2_WORDS R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define SYMBOLS_AND_SPACES R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define SYMBOLS_SLASH_AND_SPACES R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define LEAD R"([^\r\n\p{L}\p{N}]?)"

constexpr std::array<pattern_text, 1> gpt2 = {GPT2_WORDS};
constexpr std::array<pattern_text, 2> single_digits = {R"(\p{N})", GPT2_WORDS};
constexpr std::array<pattern_text, 1> llama3 = {CONTRACTIONS
                                                "|" LEAD R"(\p{L}+|\p{N}{1,3})" SYMBOLS_AND_SPACES};
constexpr std::array<pattern_text, 1> qwen2 = {CONTRACTIONS "|" LEAD
                                                            R"(\p{L}+|\p{N})" SYMBOLS_AND_SPACES};
constexpr std::array<pattern_text, 1> qwen35 = {
    CONTRACTIONS "|" LEAD
                 R"([\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<pattern_text, 1> tekken = {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER
                                                           R"(*|\p{N})" SYMBOLS_SLASH_AND_SPACES};
constexpr std::array<pattern_text, 1> gpt4o = {
    LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
               R"(?|\p{N}{1,3})" SYMBOLS_SLASH_AND_SPACES};

// As gpt4o, with Chinese characters in words of their own. The original subtracts classes. Here the
// other classes and these characters are left out. Without `sc:` PCRE2 has shared punctuation, too.
#define HAN R"(\p{sc:Han})"
#define NO_LETTER R"(\p{N}\p{P}\p{S}\p{Z}\p{C})"
#define OTHER_UPPER R"([^\p{Ll})" NO_LETTER HAN "]"
#define OTHER_LOWER R"([^\p{Lu}\p{Lt})" NO_LETTER HAN "]"
constexpr std::array<pattern_text, 1> kimi_k2 = {
    HAN "+|" LEAD OTHER_UPPER "*" OTHER_LOWER "+" CONTRACTIONS "?|" LEAD OTHER_UPPER "+" OTHER_LOWER
        "*" CONTRACTIONS R"(?|\p{N}{1,3})" SYMBOLS_AND_SPACES};

// Cased letters of the alphabets listed by DeepSeek's first tokenizers.
#define CASED_LETTERS                                                                              \
  R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA})"                    \
  R"(\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}-\x{377})"                 \
  R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"           \
  R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"             \
  R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"                        \
  R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"                        \
  R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"                 \
  R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"                \
  R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"                        \
  R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"                 \
  R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"         \
  R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B})"                \
  R"(\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D})"                        \
  R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"                        \
  R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"                        \
  R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"                  \
  R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
// The original's `\s+$`, with a look-behind so that it matches only at the start of a run of
// spaces. The match is the same, in one pass even where PCRE2 has no JIT to avoid retries.
#define SPACES_AT_END R"((?<!\s)\s++$)"
constexpr std::array<pattern_text, 6> deepseek_llm = {
    R"([\r\n])",
    R"(\s?[)" CASED_LETTERS "]+",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    SPACES_AT_END,
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)",
    R"(\p{N}+)"};
constexpr std::array<pattern_text, 5> deepseek_coder = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)", R"(\p{N})"};
constexpr std::array<pattern_text, 3> deepseek_v3 = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<pattern_text, 3> falcon = {R"([\p{P}\$\+<=>\^~\|`]+)", GPT2_WORDS,
                                                R"([0-9][0-9][0-9])"};
// For files that name no pre-tokenizer.
constexpr std::array<pattern_text, 4> unnamed = {R"([\p{P}\$\+<=>\^~\|]+)", GPT2_WORDS, R"(\p{N}+)",
                                                 R"([0-9][0-9][0-9])"};

#undef GPT2_WORDS
#undef CONTRACTIONS
#undef SYMBOLS_AND_SPACES
#undef SYMBOLS_SLASH_AND_SPACES
#undef UPPER
#undef LOWER
#undef LEAD
#undef HAN
#undef NO_LETTER
#undef OTHER_UPPER
#undef OTHER_LOWER
#undef CASED_LETTERS
#undef SPACES_AT_END

constexpr std::array<family_name, 10> gpt2_names = {"gpt-2",    "phi-2",   "mpt",    "olmo",
                                                    "gigachat", "a.x-4.0", "mellum", "jais",
                                                    "trillion", "exaone4"};
constexpr std::array<family_name, 8> single_digits_names = {
    "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"};
constexpr std::array<family_name, 8> llama3_names = {"llama-bpe", "llama3",  "llama-v3", "falcon3",
                                                     "falcon-h1", "pixtral", "midm-2.0", "lfm2"};
constexpr std::array<family_name, 2> glm4_names = {"glm4", "glm5"};
constexpr std::array<family_name, 3> dbrx_names = {"dbrx", "smaug-bpe", "chatglm-bpe"};
constexpr std::array<family_name, 7> qwen2_names = {
    "qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "solar-open", "grok-2"};
constexpr std::array<family_name, 1> qwen35_names = {"qwen35"};
constexpr std::array<family_name, 1> deepseek_llm_names = {"deepseek-llm"};
constexpr std::array<family_name, 1> deepseek_coder_names = {"deepseek-coder"};
constexpr std::array<family_name, 3> deepseek_v3_names = {"deepseek-v3", "hunyuan-dense",
                                                          "joyai-llm"};
constexpr std::array<family_name, 1> tekken_names = {"tekken"};
constexpr std::array<family_name, 4> gpt4o_names = {"gpt-4o", "llama4", "kanana2", "minimax-m2"};
constexpr std::array<family_name, 1> kimi_k2_names = {"kimi-k2"};
constexpr std::array<family_name, 1> falcon_names = {"falcon"};
constexpr std::array<family_name, 1> unnamed_names = {"default"};

constexpr std::array<pre_tokenizer_family, 15> families = {{
    {gpt2_names, gpt2, /*takes_words=*/true, /*whole_words_first=*/false, /*adds_bos=*/false},
    {single_digits_names, single_digits, true, false, false},
    {llama3_names, llama3, true, true, true},
    {glm4_names, llama3, true, true, false},
    {dbrx_names, llama3, true, false, false},
    {qwen2_names, qwen2, true, false, false},
    {qwen35_names, qwen35, true, false, false},
    {deepseek_llm_names, deepseek_llm, false, false, false},
    {deepseek_coder_names, deepseek_coder, false, false, false},
    {deepseek_v3_names, deepseek_v3, false, false, false},
    {tekken_names, tekken, false, true, true},
    {gpt4o_names, gpt4o, false, false, false},
    {kimi_k2_names, kimi_k2, false, false, false},
    {falcon_names, falcon, false, false, false},
    {unnamed_names, unnamed, false, false, false},
}};

} // namespace

std::span<const pre_tokenizer_family> pre_tokenizer_families() noexcept {
  return families;
}

} // namespace baton::text
