// The bytes of a WebSocket after its handshake: frames, and the messages in them.
#include "gateway/config/websocket_settings.hpp"
#include "gateway/websocket/websocket_messages.hpp"
#include "tests/fuzz/input.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/beast/_experimental/test/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>

using namespace baton;
using namespace baton::gateway;

namespace {

namespace beast = boost::beast;
using error_code = boost::system::error_code;

beast::http::request<beast::http::string_body> upgrade() {
  beast::http::request<beast::http::string_body> request(beast::http::verb::get, "/v1/stream", 11);
  request.set(beast::http::field::host, "localhost");
  request.set(beast::http::field::upgrade, "websocket");
  request.set(beast::http::field::connection, "Upgrade");
  request.set(beast::http::field::sec_websocket_key, "dGhlIHNhbXBsZSBub25jZQ==");
  request.set(beast::http::field::sec_websocket_version, "13");
  return request;
}

void take(std::string_view text, const gateway_config& config) {
  const auto given = parse_socket_message(text, config);
  if (const auto* mistake = std::get_if<socket_mistake>(&given))
    ENSURE(!socket_error_text(mistake->id, mistake->reason).empty(), "an error without words");
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const gateway_config config;
  static const auto request = upgrade();
  boost::asio::io_context io;
  beast::test::stream client(io);
  beast::websocket::stream<beast::test::stream> socket(io);
  socket.next_layer().connect(client);
  apply_limits(config, socket);
  error_code ec;
  socket.accept(request, ec);
  ENSURE(!ec, "the handshake failed: {}", ec.message());
  client.write_some(boost::asio::buffer(data, size), ec);
  client.close(); // all its output is complete
  for (beast::flat_buffer buffer; !ec; buffer.consume(buffer.size())) {
    socket.read(buffer, ec);
    if (!ec && socket.got_text())
      take({static_cast<const char*>(buffer.cdata().data()), buffer.size()}, config);
  }
  return 0;
}
