// Which exception stands for which status.
#include "errors.h"

#include <exception>
#include <new>
#include <string>

#include "onnx/wire/parser.h"
#include "session/options.h"

namespace nb = nanobind;

namespace forethought::python {
namespace {

const char* exception_for(const Status& status, During during) {
  const bool loading = during == During::load;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      if (!loading || is_wrong_option(status)) return "InvalidArgument";
      return status.GetPayload(wire::kNotReadable) ? "InvalidProtobuf" : "InvalidGraph";
    case absl::StatusCode::kNotFound:
      return loading ? "NotFound" : "InvalidArgument";
    case absl::StatusCode::kUnimplemented:
      return "NotImplemented";
    case absl::StatusCode::kResourceExhausted:
      return "OutOfMemory";
    case absl::StatusCode::kInternal:
      return "RuntimeException";
    default:
      return "Fail";
  }
}

}  // namespace

nb::object text(std::string_view bytes) {
  return nb::steal<nb::object>(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

nb::object exact_text(std::string_view bytes) {
  return nb::steal<nb::object>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

std::string_view bytes_of(nb::handle text, nb::object* keep) {
  if (PyUnicode_Check(text.ptr())) {
    Py_ssize_t n = 0;
    if (const char* s = PyUnicode_AsUTF8AndSize(text.ptr(), &n)) {
      *keep = nb::borrow(text);
      return {s, static_cast<size_t>(n)};
    }
    PyErr_Clear();
    *keep = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape"));
    if (!keep->is_valid()) throw nb::python_error();
  } else if (PyBytes_Check(text.ptr())) {
    *keep = nb::borrow(text);
  } else {
    PyErr_Format(PyExc_TypeError, "a str is wanted, not %s", Py_TYPE(text.ptr())->tp_name);
    throw nb::python_error();
  }
  return {PyBytes_AS_STRING(keep->ptr()), static_cast<size_t>(PyBytes_GET_SIZE(keep->ptr()))};
}

void raise_named(const char* name, std::string_view message) {
  nb::object type = nb::module_::import_("forethought._errors").attr(name);
  PyErr_SetObject(type.ptr(), text(message).ptr());
  throw nb::python_error();
}

void translate_bad_alloc() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      try {
        raise_named("OutOfMemory", "the system has no memory");
      } catch (nb::python_error& e) {
        e.restore();
      }
    }
  });
}

void raise(const Status& status, During during) {
  raise_named(exception_for(status, during), {status.message().data(), status.message().size()});
}

void raise_from(const Status& status, During during, nb::object cause) {
  const nb::object type = nb::module_::import_("forethought._errors").attr(exception_for(status, during));
  const nb::object error = type(text({status.message().data(), status.message().size()}));
  PyException_SetCause(error.ptr(), cause.release().ptr());
  PyErr_SetObject(type.ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace forethought::python
