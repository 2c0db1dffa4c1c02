// Memory: who uses how much, what may be used and kept, and allocators of a caller's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "forethought/status.h"

FORETHOUGHT_BEGIN_NAMESPACE

// What is held on one device that has memory of its own, in bytes.
struct DeviceMemory {
  std::string device;  // "gpu:1"
  int64_t live = 0, retained = 0;
  int64_t peak = 0;   // the highest live + retained so far
  int64_t limit = 0;  // of live + retained; 0: none
};

// What bounds something that a session keeps between runs: bytes (execution_cap, io_cap, side_cap, instance_cache), or
// plans (plan_cache).
struct MemoryCap {
  std::string name, unit;  // "bytes" or "plans"
  int64_t most = 0;
  int64_t kept = 0;     // of that, now
  std::string follows;  // what the number comes from: "1.0 MiB of plans in a run, and a quarter"
};

// One moment's counts in bytes. They add up: live + retained + padding == mapped, and the five roles make up live.
// Python and the command show them under the same names.
struct MemoryStats {
  int64_t live = 0;      // in use
  int64_t retained = 0;  // kept for the next use
  int64_t padding = 0;   // what rounding to pages and size classes adds to what is in use
  int64_t mapped = 0;    // all that was taken from the system, mapped model files included
  int64_t peak = 0;      // the highest `mapped` so far
  int64_t limit = 0;     // of `mapped`; 0: none

  int64_t planned = 0;    // values and scratch at planned places
  int64_t unplanned = 0;  // values whose size only a run tells, elements of sequences
  int64_t leased = 0;     // outputs that are held, inputs that had to be copied
  int64_t weights = 0;    // mapped constants, and copies of constants
  int64_t packed = 0;     // weights in the form that kernels want; shared ones count in each session that uses them

  std::vector<DeviceMemory> devices;  // beside all that, which is of the host's memory
  std::vector<MemoryCap> caps;        // of a session; of the process there are none
};

// A value that takes memory.
struct MemoryHolder {
  std::string value;
  std::string node;  // that makes or reads it: "/conv1 (Conv)"; empty: none
  std::string role;  // "planned", "unplanned", "leased", "weights", "packed"
  int64_t bytes = 0;
  int64_t buffers = 0;  // of outputs: how many of this name are held now
};

// Who holds a session's memory, and what it needs.
struct MemoryReport {
  MemoryStats session, process;
  int64_t least_limit = 0;             // with which it runs the shapes seen last; 0: none are known yet
  int64_t unplanned_values = 0;        // whose size only a run tells: it may take more for these
  int64_t unplanned_most = 0;          // what blocks of those that have a bound take at most, all together
  std::vector<std::string> unbounded;  // what has no bound: "'r' of node /range (Range)"
  std::vector<MemoryHolder> holders;   // largest first
  std::vector<MemoryCap> caps;         // as they will be after a run of the shapes seen last
  std::string weights;  // how they are held and why; packed forms that were left out; what stays in memory
  std::vector<std::pair<std::string, int64_t>> outside;  // of the process apart from accounts: "generated code", "heap"
  std::string text;                                      // all of it for people
};

// Bytes that each arena of a session keeps between runs; what was freed longest ago goes first. kRetainPlanned: what
// the plans need and a quarter more.
constexpr int64_t kRetainPlanned = -1;
struct RetentionCaps {
  int64_t execution = kRetainPlanned;  // memory of plans
  int64_t io = kRetainPlanned;         // buffers of outputs
  int64_t side = kRetainPlanned;       // buffers whose size only a run tells
};

// Where an arena's bytes come from, if not from the system. Called from any thread; memory comes back also after the
// session is gone, and the allocator is kept until then. Neither call may throw.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // At least `bytes` bytes at a multiple of `alignment` (a power of two); null if there are none.
  virtual void* allocate(size_t bytes, size_t alignment) = 0;
  virtual void deallocate(void* data, size_t bytes) = 0;
};

// Of all sessions of the process together. The limit holds beside those of the sessions; 0: none. A limit below what is
// in use is refused; what is kept above it goes back at once.
FORETHOUGHT_EXPORT MemoryStats memory_stats();
FORETHOUGHT_EXPORT Status set_memory_limit(int64_t bytes);
// The same on each device that has memory of its own.
FORETHOUGHT_EXPORT Status set_device_memory_limit(int64_t bytes);

FORETHOUGHT_END_NAMESPACE
