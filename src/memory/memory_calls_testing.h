// Counts calls for memory (heap and pages) in a test or figure program, by who made them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forethought {

// Linking memory_calls_testing.cc puts counting forms of malloc, operator new, mmap and their kin in front of the
// system's for the whole program. Under the sanitizers, which have put theirs there, only heap calls are seen, and all
// of them count as ours.
struct MemoryCalls {
  int64_t allocations = 0, frees = 0;        // of the heap
  int64_t maps = 0, unmaps = 0;              // of pages; changes of their state (madvise, mremap) count as maps
  int64_t heap_bytes = 0, mapped_bytes = 0;  // asked for; of pages, less those given back
  bool none() const { return allocations + frees + maps + unmaps == 0; }
  bool operator==(const MemoryCalls&) const = default;
};

// Records from start() to stop(), on all threads. One at a time.
class MemoryCallRecorder {
 public:
  void start();
  void stop();

  // What code outside oneDNN, oneTBB and the OpenMP runtime called; standard containers count for who uses them.
  MemoryCalls ours() const;
  // What one of these libraries called for itself: "libdnnl", "libtbb", "libgomp", and the watched one.
  MemoryCalls of(const std::string& library) const;
  // From the next start() on, calls of the library whose file name begins so are told apart, too. The pointer is kept.
  static void watch(const char* library);
  // The first calls of ours, one a line: kind, bytes, "program+0xADDRESS" for addr2line. Empty if there were none.
  std::string first_of_ours(int most = 8) const;
  static bool attributes_callers();  // false under the sanitizers
};

// While it lives, the n-th operator new of our code (1: the next), on whatever thread, has no memory to give: once.
// What the libraries above, and any other shared library, ask for is served and not counted. Under the sanitizers, too.
class FailAllocation {
 public:
  explicit FailAllocation(int64_t nth);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;
  bool triggered() const;  // it has come to that
  // Our code is from now on that of the shared library whose file name begins so, not the program's. Before the first.
  static void is_of(const char* library);
};
// The frames that asked for what was refused last, innermost first: "program+0xADDRESS" for addr2line.
std::string refused_allocation();

// What operator new gave and operator delete has not had back, of the whole program.
int64_t blocks_in_use();

// Page faults of this process so far that needed no reading from a disk.
int64_t minor_faults();

}  // namespace forethought
