// Calls into Python for memory, and what they raise.
#include "allocator.h"

#include "errors.h"
#include "session/session.h"

namespace forethought::python {

PythonAllocator::~PythonAllocator() {
  if (!failure_.is_valid()) return;
  if (!interpreter_runs()) {
    static_cast<void>(failure_.release());
    return;
  }
  nb::gil_scoped_acquire lock;
  failure_.reset();
}

void* PythonAllocator::allocate(size_t bytes, size_t alignment) {
  if (!interpreter_runs()) return nullptr;
  nb::gil_scoped_acquire lock;
  nb::error_scope outer;  // what was raised before, where a value is taken on the way out
  try {
    const nb::object address = nb::handle(allocate_.object)(bytes, alignment);
    if (address.is_none()) return nullptr;
    const nb::object number = nb::steal(PyNumber_Index(address.ptr()));
    void* const data = number.is_valid() ? PyLong_AsVoidPtr(number.ptr()) : nullptr;
    if (PyErr_Occurred()) throw nb::python_error();
    return data;
  } catch (nb::python_error& e) {
    failure_ = nb::borrow(e.value());
    return nullptr;
  }
}

void PythonAllocator::release(void* data, size_t) {
  if (!interpreter_runs()) return;
  nb::gil_scoped_acquire lock;
  nb::error_scope outer;
  try {
    nb::handle(free_.object)(reinterpret_cast<uintptr_t>(data));
  } catch (nb::python_error& e) {
    e.restore();
    PyErr_WriteUnraisable(free_.object);
  }
}

nb::object allocator_failure(const Session& session) {
  nb::object failure;
  for (const auto& source : {session.options().execution_source, session.options().io_source})
    if (source && !failure.is_valid()) failure = static_cast<PythonAllocator*>(source.get())->take_failure();
  return failure;
}

void check_run(const Session& session, const Status& status) {
  nb::object failure = allocator_failure(session);
  if (status.ok()) return;
  if (failure.is_valid()) raise_from(status, During::run, std::move(failure));
  raise(status, During::run);
}

std::shared_ptr<MemorySource> source_of(nb::object pair) {
  if (pair.is_none()) return nullptr;
  return std::make_shared<PythonAllocator>(pair[0], pair[1]);
}

}  // namespace forethought::python
