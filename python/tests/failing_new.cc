// A library to load in front of Python: lets the n-th operator new of the module _core fail, told through ctypes.
#include <cstdint>
#include <optional>
#include <string>

#include "memory/memory_calls_testing.h"

namespace {
std::optional<forethought::FailAllocation> failing;
}  // namespace

extern "C" {
// From now on the n-th (1: the next) has no memory to give.
void fail_allocation(int64_t nth) {
  forethought::FailAllocation::is_of("_core");
  failing.emplace(nth);
}
// Not any more; 1: it came to that.
int stop_failing() {
  const bool came = failing && failing->triggered();
  failing.reset();
  return came;
}
// Who asked for what was refused last, for addr2line; until the next call.
const char* refused_allocation() {
  static std::string text;
  text = forethought::refused_allocation();
  return text.c_str();
}
int64_t blocks_in_use() { return forethought::blocks_in_use(); }
}
