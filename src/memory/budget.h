// Who uses how much memory, and the limit that holds for all of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forethought {

// What memory is for; each role is counted apart.
enum class MemoryRole : uint8_t {
  planned,    // slabs: values and scratch at planned offsets
  unplanned,  // side arena: sizes that only a run tells, elements of objects
  leased,     // I/O pool: outputs that were handed out, copied inputs
  packed,     // weights in the form that kernels want, and other copies of constants
  files,      // mapped read-only from files: the system may drop these pages, so they are outside the limit
};
constexpr int kMemoryRoles = 5;
const char* name(MemoryRole role);

struct MemoryUse {
  int64_t live = 0;      // somebody uses it now
  int64_t retained = 0;  // kept for the next use, never reported as live
};

// One moment's counts in bytes. While other threads allocate, the numbers may be of slightly different moments.
struct MemoryStatistics {
  std::array<MemoryUse, kMemoryRoles> roles;
  int64_t from_system = 0;   // live and retained of all roles but files
  int64_t peak = 0;          // the highest `from_system` so far
  int64_t limit = 0;         // 0: none
  int64_t system_calls = 0;  // times that memory was asked of the system or given back to it

  const MemoryUse& of(MemoryRole role) const { return roles[static_cast<int>(role)]; }
};
std::string to_string(
    const MemoryStatistics& statistics);    // one line: "planned 3.1 MiB, leased 4.0 KiB (+1.0 KiB kept)"
std::string readable_bytes(int64_t bytes);  // "3.1 MiB", "17 bytes"

// The account of one session, or of several that share a limit. Thread safe, without locks. Pools and leases keep it
// alive, so it is made with std::make_shared.
class MemoryBudget {
 public:
  static constexpr int64_t kUnlimited = 0;
  explicit MemoryBudget(int64_t limit = kUnlimited) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Before memory is asked of the system: counts it as retained, or says who needs how much and what would do.
  // `who` reads like "the execution slab".
  Status reserve(MemoryRole role, int64_t bytes, std::string_view who);
  void release(MemoryRole role, int64_t bytes);  // after it was given back (not in use)

  // Moves bytes between retained and live.
  void use(MemoryRole role, int64_t bytes) { account(role).live.fetch_add(bytes, std::memory_order_relaxed); }
  void unuse(MemoryRole role, int64_t bytes) { account(role).live.fetch_sub(bytes, std::memory_order_relaxed); }

  void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  MemoryStatistics statistics() const;

 private:
  struct Account {
    std::atomic<int64_t> reserved{0}, live{0};
  };
  Account& account(MemoryRole role) { return accounts_[static_cast<int>(role)]; }

  std::array<Account, kMemoryRoles> accounts_;
  std::atomic<int64_t> total_{0}, peak_{0}, limit_, system_calls_{0};
};

}  // namespace forethought
