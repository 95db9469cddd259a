// The step: draws share their constraints.
#include "schema/codec/codec_parts.hpp"

#include <unordered_map>

namespace baton::codec {
namespace {

// The constraints of a batch, each written once, however many draws share it.
class constraint_table {
public:
  // From 1; 0: none.
  std::uint32_t number_of(writer& out, const shared_constraint& c) {
    if (!c)
      return 0;
    const auto [at, is_new] =
        numbers_.try_emplace(c.get(), static_cast<std::uint32_t>(made_.size() + 1));
    if (is_new)
      made_.push_back(put(out, *c));
    return at->second;
  }
  auto finish(writer& out) const {
    using made_vector = decltype(out.buffer.CreateVector(made_));
    return made_.empty() ? made_vector{} : out.buffer.CreateVector(made_);
  }

private:
  std::unordered_map<const constraint*, std::uint32_t> numbers_;
  std::vector<offset<wire::Constraint>> made_;
};

// A draw of a batch, which refers to its constraint by number.
struct numbered_draw {
  const draw* of = nullptr;
  std::uint32_t constraint = 0;
};

offset<wire::Draw> put(writer& out, const numbered_draw& numbered) {
  const draw& m = *numbered.of;
  auto sampling = put(out, m.sampling);
  auto banned = out.numbers(m.banned, limits::biases_max);
  auto history = out.structs<wire::TokenCount>(m.history, limits::ids_max);
  auto output = out.numbers(m.output, limits::ids_max);
  return wire::CreateDraw(out.buffer, m.token_index, sampling, banned, history, numbered.constraint,
                          output, m.previous);
}

} // namespace

void get(reader& in, const wire::Draw& from, draw& to) {
  to.token_index = from.token_index();
  in.table(from.sampling(), to.sampling);
  in.numbers(from.banned(), to.banned, limits::biases_max, "draw.banned");
  in.structs(from.history(), to.history, limits::ids_max, "draw.history");
  in.numbers(from.output(), to.output, limits::ids_max, "draw.output");
  to.previous = from.previous();
}

offset<wire::Pool> put(writer& out, const pool& m) {
  auto before = out.numbers(m.before, limits::embedding_values_max);
  return wire::CreatePool(out.buffer, m.slice, static_cast<wire::Pooling>(m.how), m.is_last, before,
                          m.next, m.top);
}

void get(reader& in, const wire::Pool& from, pool& to) {
  to.slice = from.slice();
  in.one_of(from.how(), to.how, pooling::mean, pooling::scores, "pool.how");
  to.is_last = from.is_last();
  in.numbers(from.before(), to.before, limits::embedding_values_max, "pool.before");
  to.next = from.next();
  to.top = from.top();
}

offset<wire::MicroBatch> put(writer& out, const micro_batch& m) {
  auto slices = out.tables(m.slices, limits::slices_max);
  auto tokens = out.numbers(m.tokens, limits::rows_max);
  constraint_table constraints;
  std::vector<numbered_draw> numbered;
  numbered.reserve(m.draws.size());
  for (const draw& d : m.draws)
    numbered.push_back({&d, constraints.number_of(out, d.sampling.constraint)});
  auto shared = constraints.finish(out);
  out.leaves_out_constraints = true;
  auto draws = out.tables(numbered, limits::draws_max);
  auto stage_micros = out.numbers(m.stage_micros, limits::stages_max);
  auto feeds = out.structs<wire::Feed>(m.feeds, limits::slices_max);
  auto copies = out.structs<wire::BlockCopy>(m.copies, limits::copies_max);
  auto pools = out.tables(m.pools, limits::pools_max);
  return wire::CreateMicroBatch(out.buffer, m.batch.value, m.epoch.value, slices, tokens, draws,
                                stage_micros, feeds, copies, shared, pools);
}

void get(reader& in, const wire::MicroBatch& from, micro_batch& to) {
  to.batch = {from.batch()};
  to.epoch = {from.epoch()};
  in.tables(from.slices(), to.slices, limits::slices_max, "micro_batch.slices");
  in.numbers(from.tokens(), to.tokens, limits::rows_max, "micro_batch.tokens");
  in.tables(from.draws(), to.draws, limits::draws_max, "micro_batch.draws");
  std::vector<shared_constraint> constraints;
  in.tables(from.constraints(), constraints, limits::draws_max, "micro_batch.constraints");
  for (std::size_t i = 0; i < to.draws.size() && !in.refusal(); ++i) {
    const auto number = from.draws()->Get(static_cast<flatbuffers::uoffset_t>(i))->constraint();
    if (number > constraints.size())
      in.refuse(fmt::format("a draw has constraint {} of {}", number, constraints.size()));
    else if (number > 0)
      to.draws[i].sampling.constraint = constraints[number - 1];
  }
  in.numbers(from.stage_micros(), to.stage_micros, limits::stages_max, "micro_batch.stage_micros");
  in.structs(from.feeds(), to.feeds, limits::slices_max, "micro_batch.feeds");
  in.structs(from.copies(), to.copies, limits::copies_max, "micro_batch.copies");
  in.tables(from.pools(), to.pools, limits::pools_max, "micro_batch.pools");
}

} // namespace baton::codec
