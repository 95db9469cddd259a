#include "gateway/connections/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace baton::gateway {
namespace {

// For TLS 1.2; all suites of TLS 1.3 have forward secrecy and AEAD.
constexpr const char* ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr std::string_view protocol = "http/1.1";

// The first error in OpenSSL's queue; later entries are its consequences.
std::string first_error() {
  const auto number = ERR_get_error();
  const char* text = number == 0 ? nullptr : ERR_reason_error_string(number);
  ERR_clear_error();
  return text ? text : "unknown error";
}

// A client that speaks only HTTP/2 gets an alert in the handshake (RFC 7301, section 3.2).
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* in, unsigned in_size, void*) {
  for (unsigned at = 0; at < in_size; at += 1u + in[at]) {
    const std::string_view offered(reinterpret_cast<const char*>(in + at + 1),
                                   std::min<std::size_t>(in[at], in_size - at - 1));
    if (offered == protocol) {
      *out = in + at + 1;
      *out_size = in[at];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// A server cannot prompt for a password.
int no_password(char*, int, int, void*) {
  return 0;
}

// OpenSSL reads and writes the descriptor through this BIO: its own BIO would raise SIGPIPE.
int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool is_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int bio_read(BIO* bio, char* to, int size) {
  BIO_clear_retry_flags(bio);
  const auto n = ::recv(descriptor_of(bio), to, static_cast<std::size_t>(size), 0);
  if (n < 0 && is_later(errno)) {
    BIO_set_retry_read(bio);
  }
  if (n == 0) {
    BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  }
  return static_cast<int>(n);
}

int bio_write(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const auto n = ::send(descriptor_of(bio), from, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && is_later(errno)) {
    BIO_set_retry_write(bio);
  }
  return static_cast<int>(n);
}

long bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) {
    return 1;
  }
  return command == BIO_CTRL_EOF && BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
}

const BIO_METHOD* bio_method() {
  static BIO_METHOD* const method = [] {
    auto* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "descriptor");
    ENSURE(m != nullptr, "no memory");
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_ctrl(m, bio_control);
    return m;
  }();
  return method;
}

void set_rules(SSL_CTX* ssl) {
  SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
  ENSURE(SSL_CTX_set_cipher_list(ssl, ciphers) == 1, "OpenSSL lacks {}", ciphers);
  // A missing close_notify is no attack on HTTP: its framing marks the end of a body.
  SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                               SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ssl, 0);
  SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS); // saves 34 KiB for each idle connection
  SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(ssl, no_password);
}

} // namespace

tls_context::~tls_context() {
  SSL_CTX_free(ssl_);
}

result<std::shared_ptr<const tls_context>> tls_context::load(const std::string& certificate,
                                                             const std::string& key) {
  ERR_clear_error();
  auto* ssl = SSL_CTX_new(TLS_server_method());
  ENSURE(ssl != nullptr, "OpenSSL makes no context: {}", first_error());
  std::shared_ptr<const tls_context> made(new tls_context(ssl));
  set_rules(ssl);
  if (SSL_CTX_use_certificate_chain_file(ssl, certificate.c_str()) != 1) {
    return fail_param(errc::bad_config, "tls_certificate",
                      "gateway.tls_certificate: {}: no certificate in PEM: {}", certificate,
                      first_error());
  }
  if (SSL_CTX_use_PrivateKey_file(ssl, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return fail_param(errc::bad_config, "tls_key",
                      "gateway.tls_key: {}: no key in PEM without a password that fits {}: {}", key,
                      certificate, first_error());
  }
  if (SSL_CTX_check_private_key(ssl) != 1) {
    return fail_param(errc::bad_config, "tls_key", "gateway.tls_key: {} does not fit {}: {}", key,
                      certificate, first_error());
  }
  return made;
}

std::chrono::system_clock::time_point tls_context::ends_at() const {
  std::tm when{};
  const auto* certificate = SSL_CTX_get0_certificate(ssl_);
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &when) != 1) {
    return std::chrono::system_clock::time_point::max();
  }
  return std::chrono::system_clock::from_time_t(::timegm(&when));
}

tls_session::tls_session(const tls_context& context, int descriptor) : ssl_(SSL_new(context.ssl_)) {
  auto* bio = BIO_new(bio_method());
  if (ssl_ == nullptr || bio == nullptr) { // out of memory: only this connection fails
    BIO_free(bio);
    is_usable_ = false;
    return;
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio); // takes ownership of the BIO
  SSL_set_accept_state(ssl_);
}

tls_session::~tls_session() {
  SSL_free(ssl_);
}

tls_step tls_session::step_of(int returned) {
  if (returned > 0) {
    return tls_step::done;
  }
  switch (SSL_get_error(ssl_, returned)) {
  case SSL_ERROR_WANT_READ:
    return tls_step::wants_read;
  case SSL_ERROR_WANT_WRITE:
    return tls_step::wants_write;
  case SSL_ERROR_ZERO_RETURN:
    return tls_step::closed;
  default: // no further call is allowed, not even close_notify
    is_usable_ = false;
    ERR_clear_error();
    return tls_step::failed;
  }
}

tls_step tls_session::shake_hands() {
  if (!is_usable_) {
    return tls_step::failed;
  }
  ERR_clear_error();
  return step_of(SSL_do_handshake(ssl_));
}

tls_session::io tls_session::read(char* to, std::size_t size) {
  if (!is_usable_ || size == 0) {
    return {is_usable_ ? tls_step::done : tls_step::failed, 0};
  }
  ERR_clear_error();
  const int n = SSL_read(ssl_, to, static_cast<int>(std::min<std::size_t>(size, INT_MAX)));
  return {step_of(n), static_cast<std::size_t>(std::max(n, 0))};
}

tls_session::io tls_session::write(const char* from, std::size_t size) {
  if (!is_usable_ || size == 0) {
    return {is_usable_ ? tls_step::done : tls_step::failed, 0};
  }
  ERR_clear_error();
  const int n = SSL_write(ssl_, from, static_cast<int>(std::min<std::size_t>(size, INT_MAX)));
  return {step_of(n), static_cast<std::size_t>(std::max(n, 0))};
}

bool tls_session::has_buffered() const {
  return is_usable_ && SSL_has_pending(ssl_) != 0;
}

void tls_session::send_close_notify() {
  if (is_usable_ && SSL_is_init_finished(ssl_) != 0) {
    ERR_clear_error();
    SSL_shutdown(ssl_);
    ERR_clear_error();
  }
}

result<std::shared_ptr<certificate_store>> certificate_store::open(std::string certificate,
                                                                   std::string key) {
  auto first = tls_context::load(certificate, key);
  if (!first) {
    return first.error();
  }
  return std::make_shared<certificate_store>(std::move(certificate), std::move(key),
                                             *std::move(first));
}

certificate_store::certificate_store(std::string certificate, std::string key,
                                     std::shared_ptr<const tls_context> first)
    : certificate_(std::move(certificate)), key_(std::move(key)), now_(std::move(first)) {}

std::shared_ptr<const tls_context> certificate_store::look() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

result<void> certificate_store::reload() {
  auto next = tls_context::load(certificate_, key_);
  if (!next) {
    return next.error();
  }
  const std::lock_guard lock(mutex_);
  now_ = *std::move(next);
  return {};
}

} // namespace baton::gateway
