#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/knobs.h"
#include "base/log.h"

namespace forethought {

const char* name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "?";
}

std::optional<Isa> isa_from_name(std::string_view n) {
  for (Isa i : {Isa::scalar, Isa::avx2, Isa::avx512})
    if (n == name(i)) return i;
  return std::nullopt;
}

Isa detected_isa() {
  static const Isa isa = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return Isa::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
    return Isa::scalar;
  }();
  return isa;
}

Isa active_isa() {
  static const Isa isa = [] {
    const std::string wanted = knob_string(Knob::kIsa);
    if (wanted.empty()) return detected_isa();
    const auto named = isa_from_name(wanted);
    if (!named) {
      log_warning("FORETHOUGHT_ISA={} is none of scalar, avx2, avx512; using {}", wanted, name(detected_isa()));
      return detected_isa();
    }
    if (*named > detected_isa()) {
      log_warning("FORETHOUGHT_ISA={} is more than this machine has; using {}", wanted, name(detected_isa()));
      return detected_isa();
    }
    return *named;
  }();
  return isa;
}

namespace {

// The cgroup's CPU quota in cores, or nothing if there is none.
std::optional<double> cgroup_quota() {
  if (std::ifstream f("/sys/fs/cgroup/cpu.max"); f) {
    std::string quota;
    double period = 0;
    if (f >> quota >> period && quota != "max" && period > 0) return std::atof(quota.c_str()) / period;
    return std::nullopt;
  }
  double quota = -1, period = -1;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
  std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

int allowed_cores() {
  int cores = 1;
  // A set larger than cpu_set_t is needed on machines with over 1,024 processors.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    const size_t size = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(size, set);
    const bool ok = sched_getaffinity(0, size, set) == 0;
    if (ok) cores = std::max(1, CPU_COUNT_S(size, set));
    CPU_FREE(set);
    if (ok) break;
  }
  if (const auto quota = cgroup_quota()) cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(*quota))));
  return cores;
}

}  // namespace forethought
