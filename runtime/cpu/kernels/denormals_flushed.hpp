// During its lifetime, x86 vector operations of this thread treat denormal operands and results as
// zero. bf16 products do so regardless of this setting.
#pragma once

#include <immintrin.h>

namespace baton::cpu {
namespace {

class denormals_flushed {
public:
  denormals_flushed() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  }
  ~denormals_flushed() { _mm_setcsr(before_); }
  denormals_flushed(const denormals_flushed&) = delete;
  denormals_flushed& operator=(const denormals_flushed&) = delete;

private:
  const unsigned before_;
};

} // namespace
} // namespace baton::cpu
