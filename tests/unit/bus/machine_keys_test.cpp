// The keys of machines, without a socket.
#include "cluster/keys/machine_keys.hpp"

#include <doctest/doctest.h>

using namespace baton::cluster;

namespace {

std::string key(char digit) {
  return std::string(64, digit);
}

} // namespace

TEST_CASE("a machine changes its key, and the previous one is never trusted again") {
  machine_keys keys{{"", key('a')}, {"b", key('b')}};
  CHECK(keys.trusts(key('b')));
  CHECK(keys.trusts("b", key('b')));
  CHECK_FALSE(keys.trusts("", key('b')));
  CHECK(keys.next_after(key('b')) == key('b'));
  REQUIRE(keys.add("b", key('c')));
  CHECK(keys.trusts(key('b')));
  CHECK(keys.trusts(key('c')));
  CHECK(keys.newest("b") == key('c'));
  CHECK(keys.next_after(key('b')) ==
        key('c')); // the key that it listens with is found, whichever it is
  CHECK(keys.next_after(key('c')) == key('b'));
  keys.retire_older("b");
  CHECK_FALSE(keys.trusts(key('b')));
  CHECK(keys.trusts(key('c')));
  CHECK(keys.next_after(key('b')) == key('c'));
  CHECK(keys.next_after(key('c')) == key('c'));
  CHECK_FALSE(keys.add("b", key('b')));
  CHECK(keys.add("b", key('c')));
  CHECK(*keys.owner(key('b')) == "b");
}

TEST_CASE("no machine may use another's key") {
  machine_keys keys{{"", key('a')}, {"b", key('b')}};
  CHECK_FALSE(keys.add("c", key('b')));
  CHECK_FALSE(keys.add("b", key('a')));
  CHECK_FALSE(keys.has("c"));
  CHECK(keys.owner(key('d')) == nullptr);
  CHECK(keys.next_after(key('d')) == key('d'));
  CHECK(keys.newest("c").empty());
  keys.keep_only({"b", "z"});
  CHECK_FALSE(keys.trusts(key('a')));
  CHECK(keys.trusts(key('b')));
}

TEST_CASE("a machine has a bounded number of keys, and the oldest retired one is forgotten") {
  machine_keys keys;
  const std::string digits = "0123456789";
  for (std::size_t i = 0; i < keys_of_machine_max; ++i)
    REQUIRE(keys.add("b", key(digits[i])));
  CHECK_FALSE(keys.add("b", key(digits[keys_of_machine_max])));
  keys.retire_older("b");
  REQUIRE(keys.add("b", key(digits[keys_of_machine_max])));
  CHECK(keys.owner(key('0')) == nullptr);
  CHECK(keys.owner(key('1')) != nullptr);
  CHECK(keys.newest("b") == key(digits[keys_of_machine_max]));
}

TEST_CASE("recorded keys are read back in their order, and an invalid key is ignored") {
  machine_keys keys{{"", key('a')}, {"b", key('f')}, {"b", key('c')}};
  keys.retire_older("b");
  REQUIRE(keys.add("b", key('0')));
  CHECK(machine_keys::from(keys.text()) == keys);
  CHECK(machine_keys::from("") == machine_keys());
  CHECK(machine_keys::from("no key\n" + key('a') + "\nretired\nretired x b\n" + key('g') +
                           " b\n") == machine_keys());
}
