// Goal: every engine keeps the contract of the engine interface. Method: the conformance checks
// over the toy engine, the native one in each KV format, and the GPU engine's stage on a plain
// device. Each type of weights, dense and as a mixture.
#include "tests/unit/cpu/embeddings.hpp"
#include "tests/unit/plugin/subjects.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <utility>

using namespace baton;
using namespace baton::testing;

namespace {

conformance::subject toy_subject(std::uint32_t state_slots) {
  conformance::subject s;
  s.name = "toy";
  s.layers = 3;
  s.has_real_activations = false;
  s.make = [state_slots](const std::vector<std::uint32_t>& cuts,
                         const conformance::subject::masker& constrains) {
    conformance::stages out;
    for (const auto& range : ranges_of(3, cuts))
      out.push_back(std::make_unique<engine::toy_engine>(
          engine::toy_model{
              .seed = 5, .layers = 3, .vocabulary_size = 96, .has_states = state_slots > 0},
          range.first, engine::toy_memory{.swap_blocks = 4, .state_slots = state_slots},
          range.count, constrains));
    return out;
  };
  return s;
}

} // namespace

TEST_CASE("the toy engine keeps the contract of engines") {
  conformance::check_engine(toy_subject(0));
}

TEST_CASE("the toy engine with recurrent states keeps the contract, with 8 slots and with many") {
  conformance::check_engine(toy_subject(8));
  conformance::check_engine(toy_subject(50));
}

TEST_CASE("the native engine keeps the contract of engines") {
  for (const auto format : {cpu::kv_format::f16, cpu::kv_format::f32, cpu::kv_format::q8_0}) {
    const scratch_directory swap;
    const auto tiny = std::make_shared<const tiny_file>(
        tiny_llama{.layers = 3, .type = model::tensor_type::q4_1});
    conformance::subject s;
    s.name = std::string("native ") + std::string(cpu::name_of(format));
    s.layers = 3;
    s.make = [&](const std::vector<std::uint32_t>& cuts,
                 const conformance::subject::masker& constrains) {
      conformance::stages out;
      for (const auto& range : ranges_of(3, cuts)) {
        auto settings = settings_of(16);
        settings.kv_cache_dtype = format;
        settings.masker = constrains;
        settings.swap_blocks = 4;
        settings.swap_directory = swap.path();
        out.push_back(tiny->load(settings, range));
      }
      return out;
    };
    conformance::check_engine(s);
  }
}

TEST_CASE("an engine behind the plugin ABI keeps the contract of engines") {
  const auto plain = open_engine("plain");
  using plugin::element;
  for (const auto& [weights, kv] : {std::pair(element::f32, element::f16),
                                    {element::f32, element::f32},
                                    {element::bf16, element::bf16},
                                    {element::f16, element::f16}})
    for (const std::uint32_t experts : {0U, 4U}) {
      const auto tiny = std::make_shared<const tiny_file>(
          tiny_llama{.layers = 3, .experts = experts, .experts_used = experts / 2});
      auto settings = plugin_settings("plain");
      settings.weights = weights;
      settings.kv = kv;
      CAPTURE(static_cast<int>(weights));
      CAPTURE(experts);
      conformance::check_engine(plugin_subject(plain, tiny, settings, /*tolerance=*/0));
    }
}

TEST_CASE("an engine whose device uses a library's attention keeps the contract") {
  const auto plain = open_engine("plain");
  const auto tiny = std::make_shared<const tiny_file>(tiny_llama{.layers = 3});
  conformance::check_engine(
      plugin_subject(plain, tiny, plugin_settings("plain-paged"), /*tolerance=*/0));
  // A single row uses our kernel, a row of a prompt the library's: other orders of sums.
  conformance::check_engine(
      plugin_subject(plain, tiny, plugin_settings("plain-prompts"), /*tolerance=*/5e-5F));
}

TEST_CASE("an engine with its own kernel for few rows keeps the contract") {
  const auto plain = open_engine("plain");
  const auto tiny = std::make_shared<const tiny_file>(tiny_llama{.layers = 3});
  for (const auto& [kind, tolerance] :
       {std::pair(plugin::element::f32, 5e-5F), {plugin::element::bf16, 0.03F}}) {
    auto settings = plugin_settings("plain-few");
    settings.weights = kind;
    settings.kv = kind == plugin::element::f32 ? plugin::element::f16 : kind;
    conformance::check_engine(plugin_subject(plain, tiny, settings, tolerance));
  }
}

TEST_CASE("an engine that begins steps keeps the contract, and touches nothing that is in use") {
  const auto plain = open_engine("plain");
  for (const std::uint32_t experts : {0U, 4U}) {
    const auto tiny = std::make_shared<const tiny_file>(
        tiny_llama{.layers = 3, .experts = experts, .experts_used = experts / 2});
    CAPTURE(experts);
    CHECK(load_plugin(plain, *tiny, plugin_settings("plain-late"))->begun_max() == 2);
    conformance::check_engine(
        plugin_subject(plain, tiny, plugin_settings("plain-late"), /*tolerance=*/0));
  }
  const tiny_file tiny(tiny_llama{.layers = 2});
  CHECK(load_plugin(plain, tiny, plugin_settings("plain-still"))->begun_max() == 0);
}

TEST_CASE("a last stage without rows rejects embeddings by name, others pass rows on") {
  const auto plain = open_engine("bad_modest");
  const tiny_file tiny(tiny_llama{.layers = 2});
  micro_batch batch;
  batch.slices = {{{{1}, 0}, 0, 3, false, {0}}};
  batch.tokens = {1, 2, 3};
  batch.pools = {{0, pooling::mean, true, {}}};
  const auto whole = load_plugin(plain, tiny, plugin_settings("plain"));
  CHECK_FALSE(whole->limits().pools);
  const auto refused = whole->run(batch, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::unsupported_parameter);
  const auto first =
      load_plugin(plain, tiny, plugin_settings("plain"), model::layer_range{0, 1, true, false});
  CHECK(first->limits().pools);
}

TEST_CASE("embeddings behind the plugin ABI match the native engine, always with the same bits") {
  const auto plain = open_engine("plain");
  const tiny_file tiny({.layers = 3, .type = model::tensor_type::f32});
  const auto tokens = some_tokens(60);
  auto settings = plugin_settings("plain");
  settings.block_positions = 64;
  settings.keeps_logits = true;
  const auto engine = load_plugin(plain, tiny, settings);
  const auto first = load_plugin(plain, tiny, settings, model::layer_range{0, 2, true, false});
  const auto second = load_plugin(plain, tiny, settings, model::layer_range{2, 1, false, true});
  const part decoding{.sequence = 1, .tokens = {7}, .blocks_from = 8};
  REQUIRE(engine->run(batch_of({decoding}), {}));
  const std::vector<float> alone(engine->logits(0).begin(), engine->logits(0).end());
  for (const auto how : all_poolings) {
    CAPTURE(static_cast<int>(how));
    CHECK(engine->limits().pools);
    const auto whole = embedding_of(*engine, tokens, how, {60});
    const auto native = embedding_of(*tiny.load(settings_of(16)), tokens, how, {60});
    REQUIRE(whole.size() == native.size());
    for (std::size_t i = 0; i < whole.size(); ++i)
      REQUIRE(std::abs(whole[i] - native[i]) < 1e-4F);
    for (const auto& sizes : std::vector<std::vector<std::size_t>>{{1}, {7, 30, 9}, {59, 1}}) {
      CHECK(embedding_of(*engine, tokens, how, sizes) == whole);
      CHECK(embedding_of(*engine, tokens, how, sizes, {decoding}) == whole);
      CHECK(first_difference(alone, engine->logits(0)) == -1);
    }
    auto batch = batch_of({{.tokens = tokens, .samples = false}});
    batch.pools = {{0, how, true, {}}};
    const auto middle = first->run(batch, {});
    REQUIRE_MESSAGE(middle, middle.error().message);
    CHECK(middle->pooled.empty());
    CHECK(middle->owner); // owns the rows, which move on without a copy
    const auto out = second->run(batch, middle->activations);
    REQUIRE_MESSAGE(out, out.error().message);
    REQUIRE(out->pooled.size() == 1);
    CHECK(out->pooled[0].values == whole);
  }
}

// The checks themselves must be able to fail: engines that break one promise each.
namespace {

class faulty_engine final : public engine::engine {
public:
  enum class fault {
    forgets_copies,
    swaps_blocks,
    depends_on_company,
    draws_otherwise,
    passes_over_constraints,
    pools_a_chunk_alone,
    scores_another_token,
    runs_what_was_begun,
    keeps_a_state_per_sequence,
    writes_over_the_state
  };
  faulty_engine(fault what, std::unique_ptr<engine> real) : what_(what), real_(std::move(real)) {}
  const baton::engine::capacity& limits() const noexcept override { return real_->limits(); }
  result<baton::engine::step_output> run(const micro_batch& batch,
                                         std::span<const float> activations) override {
    if (auto ok = validate(batch, activations, limits(), activations.empty()); !ok)
      return ok.error();
    auto changed = batch;
    const auto begun = std::exchange(begun_, std::nullopt);
    if (begun && what_ == fault::runs_what_was_begun)
      changed.tokens.assign(batch.tokens.size(), begun->tokens.front());
    if (what_ == fault::forgets_copies)
      changed.copies.clear();
    if (what_ == fault::swaps_blocks)
      for (auto& s : changed.slices)
        if (s.blocks.size() > 2)
          std::swap(s.blocks[0], s.blocks[1]);
    if (what_ == fault::depends_on_company && changed.slices.size() > 1)
      changed.tokens[0] = changed.tokens[0] / 2;
    if (what_ == fault::draws_otherwise)
      for (auto& d : changed.draws)
        d.sampling.seed += 1;
    if (what_ == fault::passes_over_constraints)
      for (auto& d : changed.draws)
        d.sampling.constraint = {};
    if (what_ == fault::pools_a_chunk_alone)
      for (auto& p : changed.pools)
        p.before.assign(p.before.size(), 0.0F);
    if (what_ == fault::scores_another_token)
      for (auto& p : changed.pools)
        p.next = p.next == 0 ? 1 : p.next - 1;
    if (what_ == fault::keeps_a_state_per_sequence)
      for (auto& s : changed.slices) {
        const auto last = std::exchange(last_[s.sequence], s.state_to);
        s.state_from = s.position > 0 ? last : 0;
      }
    auto out = real_->run(changed, activations);
    if (what_ == fault::writes_over_the_state && out && changed.slices[0].position > 0) {
      // As an engine that updates the state in its place.
      const auto& front = changed.slices[0];
      micro_batch over;
      over.slices = {{front.sequence, 0, front.position, false, front.blocks}};
      over.slices[0].blocks.resize((front.position + limits().block_positions - 1) /
                                   limits().block_positions);
      over.slices[0].state_to = front.state_from;
      over.tokens.assign(front.position, 1);
      if (activations.empty())
        static_cast<void>(real_->run(over, {}));
    }
    return out;
  }
  bool begin(const micro_batch& batch, std::span<const float> /*activations*/) override {
    begun_ = batch;
    return true;
  }

private:
  fault what_;
  std::unique_ptr<engine> real_;
  std::optional<micro_batch> begun_;
  std::map<sequence_id, std::uint32_t> last_; // the slot that each has written last
};

conformance::subject with_fault(faulty_engine::fault what, conformance::subject s) {
  s.make = [what, real = s.make](const std::vector<std::uint32_t>& cuts,
                                 const conformance::subject::masker& constrains) {
    auto out = real(cuts, constrains);
    for (auto& stage : out)
      stage = std::make_unique<faulty_engine>(what, std::move(stage));
    return out;
  };
  return s;
}

conformance::subject faulty(faulty_engine::fault what) {
  auto tiny = std::make_shared<const tiny_file>(tiny_llama{.layers = 2});
  return with_fault(
      what, plugin_subject(open_engine("plain"), std::move(tiny), plugin_settings("plain"), 0));
}

} // namespace

TEST_CASE("an engine that ignores copies is detected" * doctest::should_fail()) {
  conformance::copies_bring_back(faulty(faulty_engine::fault::forgets_copies));
}
TEST_CASE("an engine that uses other blocks is detected" * doctest::should_fail()) {
  conformance::chunks_do_not_show(faulty(faulty_engine::fault::swaps_blocks));
}
TEST_CASE("an engine whose rows depend on others is detected" * doctest::should_fail()) {
  conformance::company_does_not_show(faulty(faulty_engine::fault::depends_on_company));
}
TEST_CASE("an engine that draws by itself is detected" * doctest::should_fail()) {
  conformance::draws_by_the_contract(faulty(faulty_engine::fault::draws_otherwise));
}
TEST_CASE("an engine that ignores constraints is detected" * doctest::should_fail()) {
  conformance::constraints_are_kept(faulty(faulty_engine::fault::passes_over_constraints));
}
TEST_CASE("an engine that forgets a prompt's pooled state is detected" * doctest::should_fail()) {
  conformance::pools_rows(faulty(faulty_engine::fault::pools_a_chunk_alone));
}
TEST_CASE("an engine that runs whatever was begun is detected" * doctest::should_fail()) {
  conformance::begun_steps_do_not_show(faulty(faulty_engine::fault::runs_what_was_begun));
}
TEST_CASE("an engine that scores other tokens is detected" * doctest::should_fail()) {
  conformance::scores_prompts(faulty(faulty_engine::fault::scores_another_token));
}
TEST_CASE("an engine that finds states by sequence is detected" * doctest::should_fail()) {
  conformance::states_are_in_slots(
      with_fault(faulty_engine::fault::keeps_a_state_per_sequence, toy_subject(8)));
}
TEST_CASE("an engine that writes over the state it read is detected" * doctest::should_fail()) {
  conformance::states_are_in_slots(
      with_fault(faulty_engine::fault::writes_over_the_state, toy_subject(8)));
}
