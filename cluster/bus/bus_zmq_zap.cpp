#include "cluster/bus/bus_zmq_zap.hpp"

#include "cluster/bus/bus_zmq.hpp"

#include <array>
#include <iterator>
#include <vector>

namespace baton::cluster {
namespace {

constexpr const char* zap_endpoint = "inproc://zeromq.zap.01";
constexpr const char* zap_domain = "baton";
// Version, id, domain, address, identity, mechanism, key.
constexpr std::size_t zap_frames = 7;

// Keeps at most `count_max` frames. Only ZeroMQ itself sends here.
std::vector<std::string> receive_all(zmq::socket_t& s, std::size_t count_max) {
  std::vector<std::string> frames;
  for (bool has_more = true; has_more;) {
    zmq::message_t m;
    if (!s.recv(m, zmq::recv_flags::dontwait))
      break;
    has_more = m.more();
    if (frames.size() < count_max)
      frames.push_back(m.to_string());
  }
  return frames;
}

} // namespace

void set_key(zmq::socket_t& s, int option, const std::string& hex) {
  const auto bytes = key_bytes(hex);
  if (zmq_setsockopt(s.handle(), option, bytes.data(), bytes.size()) != 0)
    throw zmq::error_t();
}

void serve_encrypted(zmq::socket_t& s, const key_pair& own) {
  s.set(zmq::sockopt::curve_server, true);
  set_key(s, ZMQ_CURVE_SECRETKEY, own.secret_key);
  s.set(zmq::sockopt::zap_domain, zap_domain);
}

void connect_encrypted(zmq::socket_t& s, const key_pair& own, const std::string& server_key) {
  set_key(s, ZMQ_CURVE_SERVERKEY, server_key);
  set_key(s, ZMQ_CURVE_PUBLICKEY, own.public_key);
  set_key(s, ZMQ_CURVE_SECRETKEY, own.secret_key);
}

zap_authenticator::zap_authenticator(zmq::context_t& context)
    : socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind(zap_endpoint);
}

void zap_authenticator::judge(const std::function<bool(const std::string&)>& may_come) {
  for (;;) {
    const auto asked = receive_all(socket_, zap_frames);
    if (asked.size() < 2)
      return;
    const bool has_key = asked.size() == zap_frames && asked[5] == "CURVE";
    const auto key = has_key ? key_text(asked[6]) : std::string();
    const bool yes = may_come(key);
    const std::string answer[] = {
        "1.0", asked[1], yes ? "200" : "400", yes ? "OK" : "this key is not trusted", key, ""};
    for (std::size_t i = 0; i < std::size(answer); ++i)
      static_cast<void>(socket_.send(zmq::buffer(answer[i]), i + 1 < std::size(answer)
                                                                 ? zmq::send_flags::sndmore
                                                                 : zmq::send_flags::none));
  }
}

key_pair make_key_pair() {
  char public_key[41];
  char secret_key[41];
  ENSURE(zmq_curve_keypair(public_key, secret_key) == 0, "ZeroMQ was built without CURVE");
  std::array<std::uint8_t, curve_key_bytes> bytes{};
  const auto text = [&bytes](const char* z85) {
    ENSURE(zmq_z85_decode(bytes.data(), z85) != nullptr, "ZeroMQ does not read its own key");
    return key_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  return {text(public_key), text(secret_key)};
}

} // namespace baton::cluster
