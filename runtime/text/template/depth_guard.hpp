// One level of the interpreter's recursion.
#pragma once

#include "runtime/text/template/interpreter.hpp"

namespace baton::text::jinja {

struct depth_guard {
  explicit depth_guard(interpreter& run) : run_(run) { ++run_.depth_; }
  ~depth_guard() { --run_.depth_; }
  depth_guard(const depth_guard&) = delete;
  depth_guard& operator=(const depth_guard&) = delete;
  // False, with the failure recorded, if the recursion is too deep.
  explicit operator bool() const {
    return run_.depth_ <= run_.limits_.depth_max || run_.refuse("the template recurses too deeply");
  }

private:
  interpreter& run_;
};

} // namespace baton::text::jinja
