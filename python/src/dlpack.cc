#include "dlpack.h"

#include <cstring>
#include <string>
#include <utility>

#include "allocator.h"
#include "errors.h"
#include "tensor/dlpack.h"

namespace forethought::python {
namespace {

template <typename Struct>
struct Names;
template <>
struct Names<dlpack::Managed> {
  static constexpr const char *fresh = "dltensor", *used = "used_dltensor";
};
template <>
struct Names<dlpack::ManagedVersioned> {
  static constexpr const char *fresh = "dltensor_versioned", *used = "used_dltensor_versioned";
};

[[noreturn]] void raise_builtin(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

// A capsule that nobody took still owns its struct.
template <typename Struct>
void drop_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Names<Struct>::fresh)) return;
  auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule, Names<Struct>::fresh));
  if (managed->deleter) managed->deleter(managed);
}

template <typename Struct>
nb::object capsule_of(Struct* managed) {
  PyObject* capsule = PyCapsule_New(managed, Names<Struct>::fresh, drop_capsule<Struct>);
  if (!capsule) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

template <typename Struct>
HeldValue import_struct(PyObject* capsule, const Feeding& feeding,
                        StatusOr<dlpack::Imported> (*import)(Struct*, dlpack::MakeTensor)) {
  auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule, Names<Struct>::fresh));
  const auto make = [&](DType dtype, std::span<const int64_t> dims) { return room_for(dtype, dims, feeding); };
  StatusOr<dlpack::Imported> imported = import(managed, make);
  if (feeding.session) check_run(*feeding.session, imported.status());
  dlpack::Imported in = check(std::move(imported), During::run);
  if (PyCapsule_SetName(capsule, Names<Struct>::used) != 0) throw nb::python_error();
  HeldValue held;
  held.value = std::move(in.tensor);
  held.read_only = in.read_only;
  held.copied_bytes = in.copied_bytes;
  return held;
}

// Two whole numbers, as devices and versions are written.
std::pair<int64_t, int64_t> pair_of(nb::handle value, const char* what) {
  const auto item = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(value.ptr(), i); };
  if (!PyTuple_Check(value.ptr()) || PyTuple_GET_SIZE(value.ptr()) != 2 || !PyIndex_Check(item(0)) ||
      !PyIndex_Check(item(1))) {
    raise_builtin(PyExc_TypeError, std::string(what) + " is a tuple of two whole numbers");
  }
  return {PyNumber_AsSsize_t(item(0), nullptr), PyNumber_AsSsize_t(item(1), nullptr)};  // clipped, not refused
}

// The capsule that `source` is or gives; libraries from before versions do not know max_version.
nb::object capsule_from(nb::handle source) {
  if (PyCapsule_CheckExact(source.ptr())) return nb::borrow(source);
  if (!PyObject_HasAttrString(source.ptr(), "__dlpack__"))
    raise_builtin(PyExc_TypeError,
                  std::string("from_dlpack wants a DLPack capsule or an object with __dlpack__, not ") +
                      Py_TYPE(source.ptr())->tp_name);
  if (PyObject_HasAttrString(source.ptr(), "__dlpack_device__")) {
    const auto [type, id] = pair_of(source.attr("__dlpack_device__")(), "what __dlpack_device__ gives");
    const auto number = [](int64_t n) { return n == static_cast<int32_t>(n) ? static_cast<int32_t>(n) : -1; };
    check(dlpack::check_device({number(type), number(id)}), During::run);
  }
  nb::object give = source.attr("__dlpack__");
  try {
    return give(nb::arg("max_version") = nb::make_tuple(dlpack::kVersion.major, dlpack::kVersion.minor));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return give();
}

Tensor exported_tensor(const HeldValue& self, bool copy) {
  if (!self.value.is_tensor()) raise_named("Fail", "this OrtValue holds no tensor");
  if (copy) {
    Tensor borrowed = self.value.tensor();
    borrowed.owner = BufferRef();
    return owned(borrowed).tensor();
  }
  Tensor t = self.value.tensor();
  if (!t.owner && self.keep.is_valid()) t.owner = hold(PythonOwner(self.keep));
  return t;
}

}  // namespace

nb::object to_dlpack(const HeldValue& self, nb::handle max_version, nb::handle dl_device, nb::handle copy) {
  if (!dl_device.is_none()) {
    if (pair_of(dl_device, "dl_device") != std::pair<int64_t, int64_t>(dlpack::kCpu, 0))
      raise_builtin(PyExc_BufferError, "the tensor is on the CPU, device (1, 0), and goes nowhere else");
  }
  if (!copy.is_none() && !PyBool_Check(copy.ptr())) raise_builtin(PyExc_TypeError, "copy is a bool or None");
  const bool copied = copy.ptr() == Py_True;
  const Tensor tensor = exported_tensor(self, copied);
  const bool read_only = self.read_only && !copied;
  if (max_version.is_none() || pair_of(max_version, "max_version").first < dlpack::kVersion.major) {
    if (read_only)
      raise_builtin(
          PyExc_BufferError,
          "DLPack before version 1 cannot say that memory is read-only: ask with max_version=(1, 0), or copy");
    return capsule_of(check(dlpack::to_managed(tensor), During::run));
  }
  const uint64_t flags = (read_only ? dlpack::kReadOnly : 0) | (copied ? dlpack::kCopied : 0);
  return capsule_of(check(dlpack::to_versioned(tensor, flags), During::run));
}

HeldValue from_dlpack(nb::handle source, const Feeding& feeding) {
  const nb::object capsule = capsule_from(source);
  PyObject* c = capsule.ptr();
  if (PyCapsule_IsValid(c, Names<dlpack::ManagedVersioned>::fresh))
    return import_struct(c, feeding, &dlpack::from_versioned);
  if (PyCapsule_IsValid(c, Names<dlpack::Managed>::fresh)) return import_struct(c, feeding, &dlpack::from_managed);
  const char* name = PyCapsule_CheckExact(c) ? PyCapsule_GetName(c) : nullptr;
  if (name && (std::strcmp(name, Names<dlpack::Managed>::used) == 0 ||
               std::strcmp(name, Names<dlpack::ManagedVersioned>::used) == 0))
    raise_builtin(PyExc_TypeError,
                  "this DLPack capsule was used before, which can be done once: ask its tensor for a new one");
  PyErr_Clear();
  raise_builtin(PyExc_TypeError,
                std::string("from_dlpack wants a capsule named 'dltensor' or 'dltensor_versioned', not ") +
                    (name ? name : Py_TYPE(c)->tp_name));
}

}  // namespace forethought::python
