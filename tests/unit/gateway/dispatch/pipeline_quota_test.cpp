// The pipeline client's use of a key's quotas: when it charges them and when it frees the slot.
#include "tests/unit/gateway/dispatch/pipeline_client_world.hpp"

using namespace baton;
using namespace baton::gateway;
using namespace baton::gateway::at_pipeline_client;

namespace {

struct keyed_world : world {
  std::shared_ptr<key_account> account = std::make_shared<key_account>(
      "a", key_quotas{.concurrent_requests = 1}, authenticator::instant::clock::now());

  std::shared_ptr<quota_lease> lease() {
    REQUIRE_FALSE(account->begin(authenticator::instant::clock::now()));
    return std::make_shared<quota_lease>(account);
  }
  bool is_free() { // of the only slot; does not take it
    if (account->begin(authenticator::instant::clock::now())) {
      return false;
    }
    account->end();
    return true;
  }
  std::shared_ptr<stream> open_keyed() {
    auto out = new_stream();
    generate g;
    g.model = "m";
    g.input = std::string("hello");
    deliver(open_generate{out, g, true, true, lease()});
    return out;
  }
  chunk piece(const stream& out, std::uint32_t index, std::uint32_t count,
              finish how = finish::none) {
    auto c = chunk_for(out, index, count, how);
    c.prompt_tokens = 10;
    return c;
  }
};

} // namespace

TEST_CASE("a request pays for its prompt once and for each token, and frees its slot") {
  keyed_world w;
  auto out = w.open_keyed();
  CHECK_FALSE(w.is_free());
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
  w.deliver(w.piece(*out, 2, 2));
  CHECK(w.account->used().tokens == 12);
  w.deliver(w.piece(*out, 2, 2)); // a duplicate: neither delivered nor charged
  w.deliver(w.piece(*out, 3, 1));
  CHECK(w.account->used().tokens == 13);
  CHECK_FALSE(w.is_free());
  w.deliver(w.piece(*out, 4, 1, finish::stop));
  CHECK(w.account->used().tokens == 14);
  CHECK(w.is_free()); // before its client has read it
}

TEST_CASE("a slot is freed however the request ends") {
  SUBCASE("its client leaves while it runs") {
    keyed_world w;
    auto out = w.open_keyed();
    w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
    w.deliver(close_request{out->number(), cancel_reason::client_gone});
    CHECK(w.is_free());
  }
  SUBCASE("its client leaves before the grant: the slot is held until the grant is settled") {
    keyed_world w;
    auto out = w.open_keyed();
    w.deliver(close_request{out->number(), cancel_reason::client_gone});
    CHECK_FALSE(w.is_free());
    w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
    CHECK(w.is_free());
  }
  SUBCASE("it is refused") {
    keyed_world w;
    auto out = w.open_keyed();
    rejected no;
    no.request = out->number();
    no.reason = fail(errc::overloaded, "full");
    w.deliver(no);
    CHECK(w.is_free());
  }
  SUBCASE("the head is lost, and a question with it") {
    keyed_world w;
    auto out = w.new_stream();
    w.deliver(open_tokenize{out, std::string("x"), true, w.lease()});
    CHECK_FALSE(w.is_free());
    w.lose_head();
    CHECK(w.is_free());
  }
}

TEST_CASE("a client that resumes pays for new tokens only") {
  keyed_world w;
  auto out = w.new_stream();
  w.account->begin_resumed();
  w.deliver(open_resume{
      out, "m", ticket_id{77}, 5, {{2, false}}, std::make_shared<quota_lease>(w.account)});
  w.deliver(granted{out->number(), ticket_id{77}, epoch_id{1}});
  w.deliver(w.piece(*out, 3, 1));
  CHECK(w.account->used().tokens == 1);
}
