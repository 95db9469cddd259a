// HTTP requests that run side by side in one thread, over libcurl. A token is sent to the host of
// the request alone: libcurl takes it off when a redirect leads to another host or port. Proxies
// come from the environment.
#pragma once

#include "schema/result.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cluster {

struct byte_range {
  std::uint64_t first = 0, last = 0; // both inclusive, as in the Range header
};

struct http_request {
  std::string url;
  bool is_head = false;
  bool follows_redirects = true;
  std::string token{};               // bearer; empty: none
  std::optional<byte_range> range{}; // none: the whole
  std::chrono::seconds silence_max{10};
  std::chrono::seconds duration_max{0}; // 0: as long as bytes arrive
};

struct http_response {
  int status = 0;
  std::map<std::string, std::string> headers; // of the last response; names in lower case

  // Empty if there is no such header.
  std::string header(const std::string& name) const;
};

struct transfer_end {
  std::size_t number = 0;
  http_response response;
  std::string cut;           // why the response did not arrive in full; empty: it did
  bool is_permanent = false; // and another try cannot help: a malformed URL, a certificate
};

class http_transfers {
public:
  // Receives the body as it arrives; false ends the transfer, which then counts as cut.
  using sink = std::function<bool(const http_response&, std::string_view bytes)>;

  http_transfers();
  ~http_transfers(); // transfers that still run are dropped

  // `number` names it among those that run. Errors: internal (libcurl has no memory for it).
  result<void> start(std::size_t number, const http_request& request, sink to);
  std::size_t running() const noexcept { return running_.size(); }
  // Moves data for at most `patience`, and returns the transfers that ended meanwhile.
  std::vector<transfer_end> wait(std::chrono::milliseconds patience);
  void stop_all();

private:
  class transfer;
  void* multi_; // CURLM
  std::vector<std::unique_ptr<transfer>> running_;
};

// A whole response of at most `bytes_max`, in `body`. One try.
transfer_end fetch_once(const http_request& request, std::size_t bytes_max, std::string& body);

} // namespace baton::cluster
