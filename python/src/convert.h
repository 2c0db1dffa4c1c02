// Python objects as Values and back: arrays are borrowed on the way in and leased on the way out.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/value.h"

namespace forethought {
class Session;
}

namespace forethought::python {

namespace nb = nanobind;

// A value that Python holds (the core of OrtValue). `keep` is the array whose memory the value borrows, if it does.
struct HeldValue {
  Value value;
  nb::object keep;
  bool read_only = false;    // its memory must not be written
  int64_t copied_bytes = 0;  // of the memory it was made from, which it does not share then
};

// Whether other threads than the main one may still take the interpreter's lock.
inline bool interpreter_runs() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// Keeps a Python object for the core, which may drop it on any thread.
struct PythonOwner {
  PyObject* object;
  explicit PythonOwner(nb::handle h) : object(h.inc_ref().ptr()) {}
  PythonOwner(PythonOwner&& o) noexcept : object(std::exchange(o.object, nullptr)) {}
  PythonOwner& operator=(PythonOwner&&) = delete;
  ~PythonOwner() {
    if (!object || !interpreter_runs()) return;
    nb::gil_scoped_acquire lock;
    Py_DECREF(object);
  }
};

// What from_python works with, and what it did on the way.
struct Feeding {
  Session* session = nullptr;        // whose I/O arena what has to be copied goes to; null: the heap
  std::string_view name;             // of the input, under which the arena counts it
  std::function<int64_t()> to_come;  // bytes that have to be copied after this input, for the error of a limit

  bool lends = false;  // arrays with strides are for one run: borrowed where it reads them as they lie

  std::vector<nb::object> keep;  // arrays that the values borrow from; to be dropped with the lock held
  int64_t copies = 0;            // arrays that could not be borrowed as they were
  int64_t copied_bytes = 0;
};

// Reads numpy's types from forethought/_dtypes.py; once, when the module is made.
void init_convert(nb::module_& module);

// `object` (array, NumPy scalar, list, HeldValue, anything with __dlpack__, None) as a value for something declared as
// `want`, which may be unknown. The value borrows from the arrays in `feeding->keep`. Throws Python exceptions.
Value from_python(nb::handle object, const ValueType& want, Feeding* feeding);

// Memory for a copy, contents undefined; a Status if there is none, for check_room.
StatusOr<Tensor> room_for(DType dtype, std::span<const int64_t> dims, const Feeding& feeding);
Tensor check_room(StatusOr<Tensor> room, const Feeding& feeding);
// Bytes that from_python copies of an array: those of one that is strided, not aligned or in another byte order.
int64_t bytes_to_copy(nb::handle object);

// The value as array, list, dict or None. Arrays look at the value's memory, which they keep; what the value only
// borrows is copied.
nb::object to_python(const Value& value, bool read_only = false);

// The value with all memory its own: what is borrowed is copied.
Value owned(const Value& value);

// Arguments of functions that take lists or dicts: by these and not by casters, within which an allocation that fails
// ends the process. A list or tuple of whole numbers; a dict of texts.
Dims dims_of(nb::handle list);
std::map<std::string, std::string> texts_of(nb::dict entries);

// The dtype that numpy calls `dtype` (a dtype object); kUndefined if ONNX has no such type.
DType dtype_of_numpy(nb::handle dtype);

}  // namespace forethought::python
