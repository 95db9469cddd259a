// The parser's view of the tokens: lookahead, expectations, the first failure, and the depth.
#pragma once

#include "runtime/text/template/syntax/lexer.hpp"
#include "schema/result.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace baton::text::jinja {

class token_reader {
public:
  token_reader(std::vector<token> tokens, std::size_t nesting_max)
      : tokens_(std::move(tokens)), nesting_max_(nesting_max) {}

  const token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const token& next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }
  int line() const { return peek().line; }

  bool is(token::kind type) const { return peek().type == type; }
  bool is_symbol(std::string_view text, std::size_t ahead = 0) const {
    return peek(ahead).type == token::kind::symbol && peek(ahead).text == text;
  }
  bool is_name(std::string_view text, std::size_t ahead = 0) const {
    return peek(ahead).type == token::kind::name && peek(ahead).text == text;
  }
  bool skip_symbol(std::string_view text) { return is_symbol(text) && (next(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (next(), true); }

  bool expect_symbol(std::string_view text) {
    return skip_symbol(text) || fail_expected(fmt::format("'{}'", text));
  }
  bool expect_name(std::string_view text) {
    return skip_name(text) || fail_expected(fmt::format("'{}'", text));
  }
  bool expect(token::kind type, std::string_view what) {
    return is(type) ? (next(), true) : fail_expected(what);
  }

  // Keeps the first failure. Always returns false.
  template <class... Args>
  bool fail_here(fmt::format_string<Args...> text, Args&&... args) {
    if (!failure_) {
      failure_ = fail(errc::template_failed, "{} (template line {})",
                      fmt::format(text, std::forward<Args>(args)...), line());
    }
    return false;
  }
  bool fail_expected(std::string_view what);
  bool has_failed() const { return failure_.has_value(); }
  const error& failure() const { return *failure_; }

  std::size_t nesting_max() const { return nesting_max_; }
  std::size_t depth = 0; // of the parser's own recursion

private:
  std::vector<token> tokens_;
  std::size_t at_ = 0;
  std::size_t nesting_max_;
  std::optional<error> failure_;
};

// One level of recursion; false if it is too deep.
class nesting {
public:
  explicit nesting(token_reader& in) : in_(in) { ++in_.depth; }
  ~nesting() { --in_.depth; }
  nesting(const nesting&) = delete;
  nesting& operator=(const nesting&) = delete;
  explicit operator bool() const {
    return in_.depth <= in_.nesting_max() || in_.fail_here("the template nests too deeply");
  }

private:
  token_reader& in_;
};

} // namespace baton::text::jinja
