#include "cluster/hub/file_choice.hpp"

#include "cluster/files/shown_bytes.hpp"
#include "runtime/model/part_name.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>

namespace baton::cluster {
namespace {

// The order of choice, best first: Q4_K_M, the nearest to it in bits, ever larger files, then ever
// smaller ones, which answer worse.
constexpr std::array<std::string_view, 51> quants_that_run{
    "Q4_K_M",  "Q4_K_S",     "Q4_K_L",  "Q4_K",    "Q4_K_XL",    "UD-Q4_K_XL", "Q5_K_S",
    "Q5_K_M",  "Q5_K_L",     "Q5_K",    "Q5_K_XL", "UD-Q5_K_XL", "Q4_1",       "Q4_0",
    "IQ4_NL",  "MXFP4",      "IQ4_XS",  "Q5_0",    "Q5_1",       "Q6_K",       "Q6_K_L",
    "Q6_K_XL", "UD-Q6_K_XL", "Q8_0",    "Q8_K_XL", "UD-Q8_K_XL", "BF16",       "F16",
    "Q3_K_XL", "UD-Q3_K_XL", "Q3_K_L",  "Q3_K_M",  "IQ3_M",      "Q3_K",       "IQ3_S",
    "Q3_K_S",  "IQ3_XS",     "IQ3_XXS", "Q2_K_XL", "UD-Q2_K_XL", "Q2_K_L",     "Q2_K",
    "IQ2_M",   "Q2_K_S",     "IQ2_S",   "IQ2_XS",  "IQ2_XXS",    "TQ2_0",      "IQ1_M",
    "IQ1_S",   "TQ1_0"};
constexpr std::array<std::string_view, 1> quants_of_last_resort{"F32"};
// Known names whose weights, or some of them, are of types that do not run here.
constexpr std::array<std::string_view, 4> quants_that_do_not_run{"Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8",
                                                                 "NVFP4"};

constexpr std::string_view weights = ".safetensors";
constexpr std::string_view single_weights = "model.safetensors";
constexpr std::string_view weights_index = "model.safetensors.index.json";
// Beside the weights; those that a repository lacks are not needed.
constexpr std::array<std::string_view, 11> directory_files{"config.json",
                                                           "generation_config.json",
                                                           "tokenizer.json",
                                                           "tokenizer_config.json",
                                                           "special_tokens_map.json",
                                                           "added_tokens.json",
                                                           "vocab.json",
                                                           "merges.txt",
                                                           "tokenizer.model",
                                                           "chat_template.jinja",
                                                           "chat_template.json"};

std::string upper(std::string_view text) {
  std::string all(text);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return all;
}

std::string_view file_name(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);
}

// "A-Q4_K_M" for sub/a-q4_k_m.gguf and sub/a-q4_k_m-00001-of-00003.gguf
std::string upper_stem(std::string_view path) {
  auto name = upper(file_name(model::without_part_number(path)));
  return name.substr(0, name.rfind('.'));
}

bool is_gguf_name(std::string_view path) {
  return upper(path).ends_with(".GGUF");
}

bool ends_with_quant(std::string_view stem, std::string_view quant) noexcept {
  if (!stem.ends_with(quant))
    return false;
  const auto at = stem.size() - quant.size();
  return at == 0 || stem[at - 1] == '-' || stem[at - 1] == '.' || stem[at - 1] == '_';
}

// The lower, the better; none: it does not run here.
std::optional<std::size_t> rank_of(const std::string& quant) noexcept {
  const auto found = std::find(quants_that_run.begin(), quants_that_run.end(), quant);
  if (found != quants_that_run.end())
    return static_cast<std::size_t>(found - quants_that_run.begin());
  if (quant.empty() || quant == quants_of_last_resort.front()) // without a name it may run
    return quants_that_run.size() + (quant.empty() ? 1 : 0);
  return std::nullopt;
}

std::vector<std::string> names_of(const std::vector<hub_file>& files) {
  std::vector<std::string> names;
  for (const auto& f : files) {
    auto quant = quant_of_name(f.path);
    if (quant.empty())
      quant = f.path;
    names.push_back(std::move(quant));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::uint64_t sum_of(const std::vector<hub_file>& files) noexcept {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const hub_file& f) { return sum + f.bytes; });
}

bool is_path_or_name(const hub_file& file, const std::string& text) {
  return file.path == text || file_name(file.path) == text;
}

// Among files of one quantization the shortest path wins: not a subfolder's, nor a variant's.
bool is_before(const hub_file& a, const hub_file& b) noexcept {
  return std::pair(a.path.size(), std::string_view(a.path)) <
         std::pair(b.path.size(), std::string_view(b.path));
}

// The GGUF files of a repository by what can be done with them. A model in several parts is one of
// `whole`: its first part's path with the bytes of all.
struct gguf_files {
  std::vector<hub_file> whole, projectors;
  std::map<std::string, std::vector<hub_file>> parts;      // by the first part's path
  std::map<std::string, std::vector<hub_file>> incomplete; // the same, some are not listed

  explicit gguf_files(const std::vector<hub_file>& all) {
    for (const auto& f : all) {
      if (!is_gguf_name(f.path))
        continue;
      const auto stem = upper_stem(f.path);
      if (stem.find("MMPROJ") != stem.npos || stem.find("IMATRIX") != stem.npos)
        projectors.push_back(f);
      else if (const auto part = model::parse_part_name(f.path))
        incomplete[part->of(1)].push_back(f);
      else
        whole.push_back(f);
    }
    for (auto& [first, files] : incomplete) {
      if (files.size() < model::parse_part_name(first)->count)
        continue;
      std::sort(files.begin(), files.end(),
                [](const hub_file& a, const hub_file& b) { return a.path < b.path; });
      whole.push_back({first, sum_of(files), {}, {}});
      parts.emplace(first, std::move(files));
    }
    for (const auto& [first, files] : parts)
      incomplete.erase(first);
  }
  bool empty() const noexcept { return whole.empty() && incomplete.empty(); }

  bool matches(const hub_file& file, const std::string& quant) const {
    const auto found = parts.find(file.path);
    return is_path_or_name(file, quant) || ends_with_quant(upper_stem(file.path), upper(quant)) ||
           (found != parts.end() &&
            std::any_of(found->second.begin(), found->second.end(),
                        [&](const hub_file& part) { return is_path_or_name(part, quant); }));
  }
  file_choice choice_of(const hub_file& file, std::string why) const {
    const auto found = parts.find(file.path);
    file_choice choice;
    choice.files = found != parts.end() ? found->second : std::vector<hub_file>{file};
    choice.gguf = file.path;
    choice.why = std::move(why);
    if (choice.files.size() > 1)
      choice.why += fmt::format("; it is in {} files", choice.files.size());
    return choice;
  }
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    for (const auto& [first, files] : incomplete)
      all.push_back(fmt::format("left aside: {}: {}", first, shown_lack(first)));
    for (const auto& f : projectors)
      all.push_back(fmt::format("left aside: {} (no language model)", f.path));
    return all;
  }
  // "2 of its 3 parts are there"
  std::string shown_lack(const std::string& first) const {
    return fmt::format("{} of its {} parts are there", incomplete.at(first).size(),
                       model::parse_part_name(first)->count);
  }
};

result<file_choice> choose_named(const gguf_files& files, const std::string& quant) {
  const hub_file* best = nullptr;
  for (const auto& f : files.whole)
    if (files.matches(f, quant) && (best == nullptr || is_before(f, *best)))
      best = &f;
  if (best != nullptr)
    return files.choice_of(*best, fmt::format("{}: it was asked for", best->path));
  for (const auto& [first, parts] : files.incomplete)
    if (files.matches(parts.front(), quant) || first == quant)
      return fail(errc::not_found, "{}: {}", first, files.shown_lack(first));
  return fail(errc::not_found, "no GGUF file is {}: there are {}", quant,
              fmt::join(names_of(files.whole), ", "));
}

// The files that run here, the best first.
std::vector<hub_file> ranked(const std::vector<hub_file>& files) {
  std::vector<std::pair<std::size_t, hub_file>> all;
  for (const auto& f : files)
    if (const auto rank = rank_of(quant_of_name(f.path)))
      all.emplace_back(*rank, f);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : is_before(a.second, b.second);
  });
  std::vector<hub_file> in_order;
  for (auto& [rank, file] : all)
    in_order.push_back(std::move(file));
  return in_order;
}

error nothing_fits(const std::vector<hub_file>& that_run, const memory_room& room) {
  const auto smallest =
      std::min_element(that_run.begin(), that_run.end(),
                       [](const hub_file& a, const hub_file& b) { return a.bytes < b.bytes; });
  return fail(errc::does_not_fit,
              "the smallest of its files that run here, {}, has {}; {} of memory are available, "
              "enough for a file of {} with its KV cache; :QUANT behind the name downloads one all "
              "the same",
              smallest->path, shown_bytes(smallest->bytes), shown_bytes(room.available),
              shown_bytes(room.file_bytes_max));
}

std::string why_chosen(const gguf_files& files, const hub_file& best, const hub_file& chosen,
                       const std::optional<memory_room>& room) {
  if (files.whole.size() == 1)
    return fmt::format("{}: the only GGUF model", chosen.path);
  auto why = fmt::format("{}: of {} the nearest to {}", chosen.path,
                         fmt::join(names_of(files.whole), ", "), quants_that_run.front());
  if (chosen.path != best.path)
    why += fmt::format(" that fits into memory: {} has {}, and {} available hold a file of {}",
                       best.path, shown_bytes(best.bytes), shown_bytes(room->available),
                       shown_bytes(room->file_bytes_max));
  return why;
}

result<file_choice> choose_best(const gguf_files& files, const std::optional<memory_room>& room) {
  if (files.whole.empty())
    return fail(errc::not_found, "its GGUF model is not complete: {}: {}",
                files.incomplete.begin()->first, files.shown_lack(files.incomplete.begin()->first));
  const auto that_run = ranked(files.whole);
  if (that_run.empty())
    return fail(errc::unsupported_model, "its GGUF files are {}, which do not run here",
                fmt::join(names_of(files.whole), ", "));
  const auto chosen = std::find_if(that_run.begin(), that_run.end(), [&](const hub_file& f) {
    return !room || f.bytes <= room->file_bytes_max;
  });
  if (chosen == that_run.end())
    return nothing_fits(that_run, *room);
  return files.choice_of(*chosen, why_chosen(files, that_run.front(), *chosen, room));
}

result<file_choice> choose_directory(const std::vector<hub_file>& all) {
  const auto has = [&](std::string_view path) {
    return std::any_of(all.begin(), all.end(), [&](const hub_file& f) { return f.path == path; });
  };
  file_choice choice;
  const bool has_shards = has(weights_index);
  if (!has_shards && !has(single_weights)) {
    const bool has_pickles = has("pytorch_model.bin") || has("pytorch_model.bin.index.json");
    return fail(errc::not_found, "it has neither GGUF files nor {}{}", single_weights,
                has_pickles ? ": only pickled weights (pytorch_model.bin), which are not read"
                            : "");
  }
  if (!has("config.json"))
    return fail(errc::not_found, "it has safetensors, but no config.json");
  std::vector<std::string> aside;
  for (const auto& f : all) {
    const std::string_view path = f.path;
    const bool is_weights = path.ends_with(weights);
    const bool is_shard =
        has_shards && is_weights && path.starts_with("model-") && path.find('/') == path.npos;
    const bool is_wanted =
        is_shard || (has_shards ? path == weights_index : path == single_weights) ||
        std::find(directory_files.begin(), directory_files.end(), path) != directory_files.end();
    if (is_wanted)
      choice.files.push_back(f);
    else if (is_weights)
      aside.push_back(f.path);
  }
  choice.why = fmt::format("{} files: a directory of safetensors", choice.files.size());
  if (!aside.empty())
    choice.notes.push_back(fmt::format("left aside: {}", fmt::join(aside, ", ")));
  return choice;
}

} // namespace

std::uint64_t file_choice::bytes() const noexcept {
  return sum_of(files);
}

std::string quant_of_name(const std::string& path) {
  const auto stem = upper_stem(path);
  std::string_view longest;
  const auto look = [&](const auto& names) {
    for (const auto name : names)
      if (ends_with_quant(stem, name) && name.size() > longest.size())
        longest = name;
  };
  look(quants_that_run);
  look(quants_of_last_resort);
  look(quants_that_do_not_run);
  return std::string(longest);
}

bool is_file_path(const std::string& path) noexcept {
  if (path.empty() || path.size() > 1024 || path.front() == '/')
    return false;
  std::string_view rest = path;
  for (;;) {
    const auto segment = rest.substr(0, rest.find('/'));
    if (segment.empty() || segment == "." || segment == "..")
      return false;
    if (std::any_of(segment.begin(), segment.end(),
                    [](char c) { return c == '\\' || static_cast<unsigned char>(c) < ' '; }))
      return false;
    if (segment.size() == rest.size())
      return true;
    rest = rest.substr(segment.size() + 1);
  }
}

result<file_choice> choose_files(const std::vector<hub_file>& all, const std::string& quant,
                                 const std::optional<memory_room>& room) {
  const gguf_files files(all);
  if (files.empty() && !quant.empty())
    return fail(errc::not_found, "it has no GGUF files, so {} cannot choose one", quant);
  auto choice = files.empty()   ? choose_directory(all)
                : quant.empty() ? choose_best(files, room)
                                : choose_named(files, quant);
  if (!choice)
    return choice;
  for (auto& note : files.notes())
    choice->notes.push_back(std::move(note));
  if (room && choice->bytes() > room->file_bytes_max)
    choice->notes.push_back(fmt::format(
        "it may be too large for this machine: {} of weights, and {} of memory available, enough "
        "for {} with a KV cache",
        shown_bytes(choice->bytes()), shown_bytes(room->available),
        shown_bytes(room->file_bytes_max)));
  return choice;
}

} // namespace baton::cluster
