// Memory of an arena from two Python functions.
#pragma once

#include <memory>

#include "convert.h"
#include "memory/system.h"

namespace forethought::python {

// Calls allocate(bytes, alignment), which gives an address as an int (0 or None: there is none), and free(address),
// both on any thread, with the interpreter's lock. What free raises is shown by sys.unraisablehook. Once the
// interpreter ends, neither is called any more.
class PythonAllocator final : public MemorySource {
 public:
  PythonAllocator(nb::handle allocate, nb::handle free) : allocate_(allocate), free_(free) {}
  ~PythonAllocator() override;

  void* allocate(size_t bytes, size_t alignment) override;
  void release(void* data, size_t bytes) override;

  // What allocate raised last, if it was not taken yet; with the interpreter's lock held.
  nb::object take_failure() { return std::exchange(failure_, nb::object()); }

 private:
  PythonOwner allocate_, free_;
  nb::object failure_;
};

// Raises what a run, or a request for memory of the session, ended with: from what an allocator of the caller raised,
// if one did.
void check_run(const Session& session, const Status& status);

// What an allocator of the session raised since it was asked last; with the interpreter's lock held.
nb::object allocator_failure(const Session& session);

// A source over (allocate, free); null for None.
std::shared_ptr<MemorySource> source_of(nb::object pair);

}  // namespace forethought::python
