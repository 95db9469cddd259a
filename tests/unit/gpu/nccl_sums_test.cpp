// Goal: the protocol around NCCL holds; no test here can run the library. One communicator per
// epoch, rank 0's id on all ranks, bounded waits, no use after a failure. Method: a fake that
// answers as NCCL may, and a clock that the waits advance.
#include "runtime/gpu/device/device.hpp"
#include "runtime/gpu/nccl/nccl_sums.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace baton;
using namespace baton::gpu;

namespace {

struct fake_state {
  std::vector<std::string> calls; // calls, in order
  nccl_id begun_with{};
  int pending_looks = 0; // "pending" answers before the next one
  nccl_progress then = nccl_progress::done;
  nccl_progress device = nccl_progress::done;
  bool refuses_begin = false, refuses_sum = false;
  int alive = 0; // open communicators
};

class fake_nccl final : public nccl_calls {
public:
  explicit fake_nccl(fake_state& s) : s_(s) {}
  nccl_id make_id() override {
    s_.calls.push_back("make_id");
    nccl_id id;
    for (std::size_t i = 0; i < id.size(); ++i)
      id[i] = static_cast<unsigned char>(255 - i);
    return id;
  }
  nccl_communicator begin(const nccl_id& id, std::uint32_t rank, std::uint32_t width) override {
    s_.calls.push_back("begin " + std::to_string(rank) + "/" + std::to_string(width));
    s_.begun_with = id;
    s_.alive += s_.refuses_begin ? 0 : 1;
    return s_.refuses_begin ? nullptr : &s_;
  }
  nccl_progress state_of(nccl_communicator of) override {
    CHECK(of == &s_);
    if (s_.pending_looks > 0) {
      --s_.pending_looks;
      return nccl_progress::pending;
    }
    return s_.then;
  }
  bool add_sum(nccl_communicator, float*, std::size_t count) override {
    s_.calls.push_back("sum " + std::to_string(count));
    return !s_.refuses_sum;
  }
  nccl_progress device_state() override { return s_.device; }
  void abort(nccl_communicator what) noexcept override {
    CHECK(what == &s_);
    s_.calls.push_back("abort");
    --s_.alive;
  }
  std::string last_error() const override { return "a rank is gone"; }

private:
  fake_state& s_;
};

// A rank over the fake; the other ranks' part of a sum is `others`.
struct rank_world {
  fake_state state;
  std::vector<float> others;
  plugin::status group = plugin::status::ok;
  std::chrono::steady_clock::time_point now{}, gone_at = now + std::chrono::hours(1);
  int sums_asked = 0;
  std::unique_ptr<nccl_sums> sums;

  explicit rank_world(std::uint32_t rank) {
    plugin::settings with;
    with.rank = rank;
    with.width = 2;
    plugin::host shard;
    shard.context = this;
    shard.all_reduce = [](void* context, float* values, std::size_t count, plugin::failure* why) {
      auto& w = *static_cast<rank_world*>(context);
      ++w.sums_asked;
      for (std::size_t i = 0; i < count && i < w.others.size(); ++i)
        values[i] += w.others[i];
      if (w.group != plugin::status::ok)
        std::strcpy(why->message, "the group has gone");
      return w.group;
    };
    shard.look = [](void* context, plugin::failure* why) {
      auto& w = *static_cast<rank_world*>(context);
      std::strcpy(why->message, "the process of rank 1 of 2 is gone");
      return w.now < w.gone_at ? plugin::status::ok : plugin::status::group_failed;
    };
    nccl_options options;
    options.begin_patience = std::chrono::milliseconds(100);
    options.step_patience = std::chrono::milliseconds(50);
    options.now = [this] { return now; };
    options.pause = [this] { now += std::chrono::milliseconds(1); };
    sums = std::make_unique<nccl_sums>(std::make_unique<fake_nccl>(state), with, shard, options);
  }

  template <class F>
  std::string thrown_by(const F& f) {
    try {
      f();
    } catch (const refused& e) {
      CHECK(e.why() == plugin::status::group_failed);
      return e.what();
    }
    return {};
  }
};

using words = std::vector<std::string>;

} // namespace

TEST_CASE("all ranks begin with the id made by rank 0") {
  rank_world first(0);
  first.others.assign(128, 0.0F);
  first.state.pending_looks = 5;
  first.sums->enter(7);
  CHECK(first.state.calls == words{"make_id", "begin 0/2"});
  rank_world second(1);
  for (const unsigned char byte : first.state.begun_with)
    second.others.push_back(byte);
  second.sums->enter(7);
  CHECK(second.state.calls == words{"begin 1/2"});
  CHECK(second.state.begun_with == first.state.begun_with);
  CHECK(first.state.begun_with[0] == 255);
  CHECK(first.state.begun_with[127] == 128);
}

TEST_CASE("each epoch has its own communicator") {
  rank_world w(0);
  w.sums->enter(1);
  w.sums->enter(1);
  w.sums->sum(nullptr, 64);
  w.sums->finish();
  CHECK(w.sums_asked == 1);
  w.sums->enter(3);
  CHECK(w.state.calls == words{"make_id", "begin 0/2", "sum 64", "abort", "make_id", "begin 0/2"});
  CHECK(w.state.alive == 1);
  w.sums.reset();
  CHECK(w.state.alive == 0);
}

TEST_CASE("missing ranks are not awaited without end") {
  rank_world w(0);
  w.state.pending_looks = 1'000'000;
  CHECK(w.thrown_by([&] { w.sums->enter(1); }).find("timed out creating") != std::string::npos);
  CHECK(w.now.time_since_epoch() == std::chrono::milliseconds(100));
  CHECK(w.state.alive == 0);
  // The epoch is lost; the next one is not.
  CHECK(w.thrown_by([&] { w.sums->enter(1); }).find("the ranks failed") != std::string::npos);
  CHECK(w.thrown_by([&] { w.sums->sum(nullptr, 1); }) != "");
  CHECK(w.thrown_by([&] { w.sums->finish(); }) != "");
  w.state.pending_looks = 0;
  w.sums->enter(2);
  w.sums->sum(nullptr, 1);
  w.sums->finish();
  CHECK(w.state.alive == 1);
}

TEST_CASE("failures in every epoch leak nothing, however often") {
  SUBCASE("as it begins") {
    rank_world w(0);
    w.state.then = nccl_progress::failed;
    for (std::uint64_t epoch = 1; epoch <= 1000; ++epoch) {
      CHECK(w.thrown_by([&] { w.sums->enter(epoch); }) != "");
      CHECK(w.state.alive == 0);
    }
  }
  SUBCASE("before it begins: an unused id is not made again") {
    rank_world w(0);
    w.group = plugin::status::group_failed;
    for (std::uint64_t epoch = 1; epoch <= 1000; ++epoch)
      CHECK(w.thrown_by([&] { w.sums->enter(epoch); }) != "");
    CHECK(w.state.calls == words{"make_id"});
    w.group = plugin::status::ok;
    w.sums->enter(1001);
    w.sums->enter(1002);
    CHECK(w.state.calls ==
          words{"make_id", "begin 0/2", "abort", "make_id", "begin 0/2"}); // one for each
  }
}

TEST_CASE("a failure, immediate or later, aborts the communicator and is reported") {
  SUBCASE("while it begins") {
    rank_world w(1);
    w.state.then = nccl_progress::failed;
    CHECK(w.thrown_by([&] { w.sums->enter(4); }) == "rank 1 of 2, epoch 4: a rank is gone");
    CHECK(w.state.alive == 0);
  }
  SUBCASE("before it begins: the shards' own group") {
    rank_world w(0);
    w.group = plugin::status::group_failed;
    CHECK(w.thrown_by([&] { w.sums->enter(4); }).find("the group has gone") != std::string::npos);
    CHECK(w.state.calls == words{"make_id"});
  }
  SUBCASE("when the begin is refused") {
    rank_world w(0);
    w.state.refuses_begin = true;
    CHECK(w.thrown_by([&] { w.sums->enter(4); }).find("a rank is gone") != std::string::npos);
    CHECK(w.state.alive == 0);
  }
  SUBCASE("when a sum is refused") {
    rank_world w(0);
    w.sums->enter(4);
    w.state.refuses_sum = true;
    CHECK(w.thrown_by([&] { w.sums->sum(nullptr, 8); }).find("a rank is gone") !=
          std::string::npos);
    CHECK(w.state.alive == 0);
  }
  SUBCASE("while a sum is enqueued") {
    rank_world w(0);
    w.sums->enter(4);
    w.state.then = nccl_progress::failed;
    CHECK(w.thrown_by([&] { w.sums->sum(nullptr, 8); }).find("a rank is gone") !=
          std::string::npos);
    CHECK(w.state.alive == 0);
  }
  SUBCASE("while the device works: an asynchronous error") {
    rank_world w(0);
    w.sums->enter(4);
    w.sums->sum(nullptr, 8);
    w.state.device = nccl_progress::pending;
    w.state.pending_looks = 3;
    w.state.then = nccl_progress::failed;
    CHECK(w.thrown_by([&] { w.sums->finish(); }).find("a rank is gone") != std::string::npos);
    CHECK(w.state.alive == 0);
  }
  SUBCASE("while the device waits for a rank whose process is gone") {
    rank_world w(0);
    w.sums->enter(4);
    w.sums->sum(nullptr, 8);
    w.state.device = nccl_progress::pending;
    w.gone_at = w.now + std::chrono::milliseconds(20);
    CHECK(w.thrown_by([&] { w.sums->finish(); }).find("the process of rank 1") !=
          std::string::npos);
    CHECK(w.now == w.gone_at);
    CHECK(w.state.alive == 0);
  }
  SUBCASE("a device that never ends") {
    rank_world w(0);
    w.sums->enter(4);
    w.sums->sum(nullptr, 8);
    w.state.device = nccl_progress::pending;
    CHECK(w.thrown_by([&] { w.sums->finish(); }).find("timed out waiting for the other ranks") !=
          std::string::npos);
    CHECK(w.now.time_since_epoch() == std::chrono::milliseconds(50));
    CHECK(w.state.alive == 0);
  }
}
