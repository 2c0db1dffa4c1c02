// Counting, and the message of a limit that was reached.
#include "memory/budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace forethought {

const char* name(MemoryRole role) {
  switch (role) {
    case MemoryRole::planned:
      return "planned";
    case MemoryRole::unplanned:
      return "unplanned";
    case MemoryRole::leased:
      return "leased";
    case MemoryRole::packed:
      return "packed";
    case MemoryRole::files:
      return "files";
  }
  return "";
}

std::string readable_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string to_string(const MemoryStatistics& s) {
  std::string text;
  for (int i = 0; i < kMemoryRoles; ++i) {
    const MemoryUse& use = s.roles[i];
    if (use.live == 0 && use.retained == 0) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", name(static_cast<MemoryRole>(i)), readable_bytes(use.live));
    if (use.retained > 0) text += fmt::format(" (+{} kept)", readable_bytes(use.retained));
  }
  return text.empty() ? "nothing" : text;
}

Status MemoryBudget::reserve(MemoryRole role, int64_t bytes, std::string_view who) {
  FT_CHECK(bytes >= 0);
  if (role != MemoryRole::files) {
    const int64_t before = total_.fetch_add(bytes, std::memory_order_relaxed);
    const int64_t limit = this->limit();
    if (limit > 0 && (bytes > limit || before > limit - bytes)) [[unlikely]] {
      total_.fetch_sub(bytes, std::memory_order_relaxed);
      return exhausted(fmt::format(
          "{} needs {} ({} bytes) more, but {} of the memory limit of {} are in use: {}; allow at least {} bytes, "
          "release outputs that are held, or trim what is kept",
          who, readable_bytes(bytes), bytes, readable_bytes(before), readable_bytes(limit), to_string(statistics()),
          before > std::numeric_limits<int64_t>::max() - bytes ? bytes : before + bytes));
    }
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < before + bytes && !peak_.compare_exchange_weak(peak, before + bytes, std::memory_order_relaxed)) {
    }
  }
  account(role).reserved.fetch_add(bytes, std::memory_order_relaxed);
  system_calls_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

void MemoryBudget::release(MemoryRole role, int64_t bytes) {
  account(role).reserved.fetch_sub(bytes, std::memory_order_relaxed);
  if (role != MemoryRole::files) total_.fetch_sub(bytes, std::memory_order_relaxed);
  system_calls_.fetch_add(1, std::memory_order_relaxed);
}

MemoryStatistics MemoryBudget::statistics() const {
  MemoryStatistics s;
  for (int i = 0; i < kMemoryRoles; ++i) {
    const int64_t live = accounts_[i].live.load(std::memory_order_relaxed);
    const int64_t reserved = accounts_[i].reserved.load(std::memory_order_relaxed);
    s.roles[i] = {live, std::max<int64_t>(reserved - live, 0)};
  }
  s.from_system = total_.load(std::memory_order_relaxed);
  s.peak = peak_.load(std::memory_order_relaxed);
  s.limit = limit();
  s.system_calls = system_calls_.load(std::memory_order_relaxed);
  return s;
}

}  // namespace forethought
