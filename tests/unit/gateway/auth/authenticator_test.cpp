// Authentication by key, and the effect of a key rotation.
#include "gateway/auth/authenticator.hpp"

#include <doctest/doctest.h>

using namespace baton;
using namespace baton::gateway;

namespace {

const authenticator::instant authenticator_start{std::chrono::hours(1)};

api_key key(std::string name, std::vector<std::string> secrets, key_role role = key_role::user,
            key_quotas quotas = {}) {
  api_key k{std::move(name), {}, role, quotas};
  for (const auto& s : secrets) {
    k.digests.push_back(digest_of_key(s));
  }
  return k;
}

key_ring ring(std::vector<api_key> keys) {
  return key_ring(std::move(keys));
}

} // namespace

TEST_CASE("digests are SHA-256 in hex") {
  const auto hex = hex_of(digest_of_key("abc")); // FIPS 180-2, appendix B.1
  CHECK(hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest_from_hex(hex) == digest_of_key("abc"));
  auto bad = hex;
  bad[63] = 'D';
  CHECK_FALSE(digest_from_hex(bad));
  CHECK_FALSE(digest_from_hex(hex.substr(1)));
  CHECK_FALSE(digest_from_hex(hex + "0"));
  CHECK_FALSE(digest_from_hex(""));
}

TEST_CASE("a bearer's key is parsed, and nothing else") {
  CHECK(bearer_key("Bearer k") == "k");
  CHECK(bearer_key("bEARER   k") == "k");
  for (const auto* none : {"", "Bearer", "Bearer ", "Bearer    ", "Basic k", "k", "Bearerk"}) {
    CHECK(bearer_key(none).empty());
  }
}

TEST_CASE("without keys every caller is an admin without a name") {
  const authenticator g(std::nullopt, authenticator_start);
  CHECK_FALSE(g.needs_key());
  const auto who = g.identify("whatever");
  REQUIRE(who);
  CHECK(who->name().empty());
  CHECK(who->role == key_role::admin);
  CHECK(g.renew(*who));
}

TEST_CASE("a key authenticates its name, any other text does not") {
  const authenticator g(ring({key("a", {"secret", "next"}), key("b", {"other"}, key_role::admin)}),
                        authenticator_start);
  CHECK(g.needs_key());
  CHECK(g.identify("secret")->name() == "a");
  CHECK(g.identify("next")->name() == "a");
  CHECK(g.identify("next")->role == key_role::user);
  CHECK(g.identify("other")->name() == "b");
  CHECK(g.identify("other")->role == key_role::admin);
  for (const auto* wrong : {"", "secre", "secret ", "Secret", "a"}) {
    CAPTURE(wrong);
    const auto who = g.identify(wrong);
    REQUIRE_FALSE(who);
    CHECK(who.error().code == errc::unauthorized);
    CHECK(who.error().message.find("ecre") == std::string::npos); // never repeats a key
  }
  CHECK_FALSE(g.identify(hex_of(digest_of_key("secret")))); // a digest in the file is not a key
}

TEST_CASE("a file without keys authenticates no one") {
  const authenticator g(ring({}), authenticator_start);
  CHECK(g.needs_key());
  CHECK_FALSE(g.identify("x"));
}

TEST_CASE("keys are replaced without affecting the others") {
  authenticator g(
      ring({key("a", {"old"}, key_role::user, {.concurrent_requests = 1}), key("b", {"b"})}),
      authenticator_start);
  const auto a = *g.identify("old");
  const auto b = *g.identify("b");
  CHECK_FALSE(a.account->begin(authenticator_start));
  g.replace(ring({key("a", {"old", "new"}, key_role::admin, {.concurrent_requests = 1})}),
            authenticator_start);
  CHECK_FALSE(g.identify("b"));
  CHECK_FALSE(g.renew(b));
  CHECK(g.renew(a)->role == key_role::admin);
  CHECK(g.identify("new")->account == a.account); // the same name: the same quotas
  CHECK(g.identify("new")->account->begin(authenticator_start));
  {
    const quota_lease lease(a.account); // of the request that began above
  }
  CHECK_FALSE(g.identify("new")->account->begin(authenticator_start));
  g.replace(ring({key("a", {"new"}, key_role::user, {.concurrent_requests = 2})}),
            authenticator_start);
  CHECK_FALSE(g.renew(a)); // its key is the old one
  CHECK_FALSE(g.identify("new")->account->begin(authenticator_start));
  CHECK(g.identify("new")->account->begin(authenticator_start));
}

TEST_CASE("a name that is removed and added again keeps its usage") {
  authenticator g(ring({key("a", {"a"}), key("b", {"b"})}), authenticator_start);
  g.identify("b")->account->record_usage(7, authenticator_start);
  CHECK_FALSE(g.identify("b")->account->begin(authenticator_start));
  g.replace(ring({key("a", {"a"})}), authenticator_start);
  CHECK_FALSE(g.identify("b"));
  CHECK(g.usage().size() == 1);
  g.replace(ring({key("a", {"a2"})}), authenticator_start); // also while others change
  g.replace(ring({key("b", {"other"}), key("a", {"a"})}), authenticator_start);
  CHECK_FALSE(g.identify("b")); // its key is another one
  const auto all = g.usage();
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "b");
  CHECK(all[0].tokens == 7);
  CHECK(all[0].requests == 1);
}

TEST_CASE("usage is reported by name") {
  authenticator g(ring({key("a", {"k"}, key_role::user, {.concurrent_requests = 1})}),
                  authenticator_start);
  const auto a = g.identify("k")->account;
  CHECK_FALSE(a->begin(authenticator_start));
  CHECK(a->begin(authenticator_start));
  a->record_usage(7, authenticator_start);
  const auto all = g.usage();
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "a");
  CHECK(all[0].requests == 1);
  CHECK(all[0].tokens == 7);
  CHECK(all[0].refused == decltype(all[0].refused){{"concurrent_requests", 1}});
}
