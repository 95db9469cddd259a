// Goal: an engine gets the weights of its stage and rank, however the file names and packs them.
// Method: slices of a tiny model, joined again, give the whole; types stored in the file arrive
// with their bits.
#include "runtime/plugin/weight_feed.hpp"
#include "tests/unit/cpu/tiny_file.hpp"

#include <doctest/doctest.h>

#include <cstring>

using namespace baton;
using namespace baton::testing;
using plugin::element;
using plugin::weight;

namespace {

plugin::weight_feed open_feed(const tiny_file& tiny, const model::layer_range& range,
                              const model::tensor_slice& slice) {
  auto feed = plugin::weight_feed::open(*tiny.file, tiny.description, range, slice, 512);
  REQUIRE_MESSAGE(feed, feed.error().message);
  return *std::move(feed);
}

std::vector<float> read_all(const plugin::weight_feed& feed, const plugin::weight_name& name) {
  const auto size = feed.find(name);
  REQUIRE(size);
  std::vector<float> out(size->rows * size->columns);
  const auto ok =
      feed.read(name, 0, size->rows, element::f32, reinterpret_cast<std::byte*>(out.data()));
  REQUIRE_MESSAGE(ok, ok.error().message);
  return out;
}

// A file that records the destinations of its row reads.
class watched_file final : public model::model_file {
public:
  explicit watched_file(const model::model_file& of) : of_(of) {}
  mutable std::vector<const std::byte*> read_to;

  const std::filesystem::path& path() const noexcept override { return of_.path(); }
  std::uint64_t size_bytes() const noexcept override { return of_.size_bytes(); }
  std::string_view form() const noexcept override { return of_.form(); }
  std::uint64_t fingerprint() const noexcept override { return of_.fingerprint(); }
  bool rotates_halves() const noexcept override { return of_.rotates_halves(); }
  std::string original_name(std::string_view name) const override {
    return of_.original_name(name);
  }
  bool has(std::string_view key) const noexcept override { return of_.has(key); }
  std::vector<std::string> keys() const override { return of_.keys(); }
  std::optional<std::uint64_t> array_size(std::string_view key) const noexcept override {
    return of_.array_size(key);
  }
  result<std::uint32_t> get_u32(std::string_view key) const override { return of_.get_u32(key); }
  result<std::uint64_t> get_u64(std::string_view key) const override { return of_.get_u64(key); }
  result<float> get_f32(std::string_view key) const override { return of_.get_f32(key); }
  result<bool> get_bool(std::string_view key) const override { return of_.get_bool(key); }
  result<std::string> get_string(std::string_view key) const override {
    return of_.get_string(key);
  }
  result<std::vector<std::uint32_t>> get_u32s(std::string_view key) const override {
    return of_.get_u32s(key);
  }
  std::span<const model::tensor_view> tensors() const noexcept override { return of_.tensors(); }
  std::optional<model::tensor_view> find(std::string_view name) const override {
    return of_.find(name);
  }
  result<void> copy_rows(std::string_view name, std::uint64_t first, std::uint64_t count,
                         std::span<std::byte> out) const override {
    read_to.push_back(out.data());
    return of_.copy_rows(name, first, count, out);
  }

private:
  const model::model_file& of_;
};

constexpr weight of_layers[] = {weight::query, weight::key, weight::value, weight::attention_out,
                                weight::gate,  weight::up,  weight::down};

bool is_cut_by_columns(weight w) {
  return w == weight::attention_out || w == weight::down;
}

} // namespace

TEST_CASE("the ranks' parts of a weight form the whole") {
  for (const std::uint32_t experts : {0U, 2U}) {
    const tiny_file tiny({.hidden = 128,
                          .heads = 8,
                          .kv_heads = 4,
                          .ffn = 96,
                          .experts = experts,
                          .experts_used = experts / 2,
                          .type = model::tensor_type::q8_0});
    const auto range = model::whole(tiny.description);
    const auto whole = open_feed(tiny, range, model::split(tiny.description, 1)->front());
    const auto slices = model::split(tiny.description, 2, std::vector{1.0, 2.0}, {},
                                     model::head_cut::between_kv_heads);
    REQUIRE(slices);
    const plugin::weight_feed parts[] = {open_feed(tiny, range, (*slices)[0]),
                                         open_feed(tiny, range, (*slices)[1])};
    for (const auto which : of_layers)
      for (std::uint32_t expert = 0; expert < std::max(1U, experts); ++expert) {
        const plugin::weight_name name{which, 1, expert};
        if (expert > 0 && which < weight::gate)
          continue;
        CAPTURE(static_cast<int>(which));
        const auto expected = read_all(whole, name);
        const auto size = *whole.find(name);
        std::vector<float> found(expected.size());
        std::uint64_t at = 0;
        for (const auto& part : parts) {
          const auto values = read_all(part, name);
          const auto own = *part.find(name);
          const bool by_columns = is_cut_by_columns(which);
          for (std::uint64_t r = 0; r < own.rows; ++r)
            std::memcpy(found.data() +
                            (by_columns ? r * size.columns + at : (at + r) * size.columns),
                        values.data() + r * own.columns, own.columns * sizeof(float));
          at += by_columns ? own.columns : own.rows;
        }
        CHECK(found == expected);
      }
  }
}

TEST_CASE("data in the wanted type is copied unchanged, the rest is rounded once") {
  for (const auto& [type, as] : {std::pair(model::tensor_type::bf16, element::bf16),
                                 {model::tensor_type::f16, element::f16},
                                 {model::tensor_type::f32, element::bf16},
                                 {model::tensor_type::q4_0, element::f16},
                                 {model::tensor_type::iq4_nl, element::bf16},
                                 {model::tensor_type::mxfp4, element::f16}}) {
    const tiny_file tiny({.type = type});
    const auto feed =
        open_feed(tiny, model::whole(tiny.description), model::split(tiny.description, 1)->front());
    const plugin::weight_name name{weight::down, 1};
    const auto exact = read_all(feed, name);
    std::vector<std::uint16_t> narrow(exact.size());
    const auto rows = feed.find(name)->rows;
    // In two parts: rows are written where requested.
    const auto half = rows / 2, columns = exact.size() / rows;
    for (const auto first : {std::uint64_t{0}, half})
      REQUIRE(feed.read(name, first, first == 0 ? half : rows - half, as,
                        reinterpret_cast<std::byte*>(narrow.data() + first * columns)));
    for (std::size_t i = 0; i < exact.size(); ++i)
      REQUIRE(narrow[i] ==
              (as == element::bf16 ? model::f32_to_bf16(exact[i]) : model::f32_to_f16(exact[i])));
  }
}

TEST_CASE("a rank that shares a KV head with its neighbour is rejected by name") {
  const tiny_file tiny({.heads = 4, .kv_heads = 1});
  const auto slices = model::split(tiny.description, 2);
  REQUIRE(slices);
  const auto feed = plugin::weight_feed::open(*tiny.file, tiny.description,
                                              model::whole(tiny.description), (*slices)[1], 512);
  REQUIRE_FALSE(feed);
  CHECK(feed.error().code == errc::invalid_value);
  CHECK(feed.error().message.find("not heads 2 to 3 of KV heads 0 to 0") != std::string::npos);
}

TEST_CASE("a stage has its own layers, and only its own ends") {
  const tiny_file tiny({.layers = 3});
  const auto slice = model::split(tiny.description, 1)->front();
  const auto whole = open_feed(tiny, model::whole(tiny.description), slice);
  const auto middle = open_feed(tiny, {1, 1, false, false}, slice);
  CHECK(read_all(middle, {weight::gate, 0}) == read_all(whole, {weight::gate, 1}));
  CHECK(!middle.find({weight::gate, 1}));
  CHECK(!middle.find({weight::embedding}));
  CHECK(!middle.find({weight::head}));
  CHECK(!middle.find({weight::router, 0}));
  CHECK(!middle.find({weight::query_bias, 0}));
  CHECK(whole.find({weight::embedding})->rows == tiny.description.vocab_size);
  CHECK(middle.describe().layer_count == 1);
  CHECK(middle.describe().logit_count == 0);
  std::byte unused[16];
  CHECK(middle.read({weight::gate, 0}, 0, 1U << 30U, element::f32, unused).error().code ==
        errc::invalid_value);
  CHECK(middle.read({weight::head}, 0, 1, element::f32, unused).error().code == errc::not_found);
}

TEST_CASE("weights of the wanted type are read directly to their destination, others are not") {
  const tiny_file tiny({.type = model::tensor_type::bf16});
  const watched_file file(*tiny.file);
  const auto slices = model::split(tiny.description, 2);
  REQUIRE(slices);
  const auto open = [&](const model::tensor_slice& slice) {
    auto feed = plugin::weight_feed::open(file, tiny.description, model::whole(tiny.description),
                                          slice, 512);
    REQUIRE_MESSAGE(feed, feed.error().message);
    return *std::move(feed);
  };
  const auto whole = open(model::split(tiny.description, 1)->front()), rank = open((*slices)[1]);
  // Whether its rows 1 and 2 were read directly.
  const auto came_straight = [&](const plugin::weight_feed& feed, weight which, element as) {
    const auto columns = feed.find({which, 1})->columns;
    std::vector<std::byte> out(2 * columns * (as == element::f32 ? 4 : 2));
    file.read_to.clear();
    const auto ok = feed.read({which, 1}, 1, 2, as, out.data());
    REQUIRE_MESSAGE(ok, ok.error().message);
    return file.read_to == std::vector<const std::byte*>{out.data()};
  };
  for (const auto which : of_layers) {
    CAPTURE(static_cast<int>(which));
    CHECK(came_straight(whole, which, element::bf16));
    CHECK(!came_straight(whole, which, element::f16));
    CHECK(!came_straight(whole, which, element::f32));
    CHECK(came_straight(rank, which, element::bf16) == !is_cut_by_columns(which));
  }
}
