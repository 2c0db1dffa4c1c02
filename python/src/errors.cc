// Which exception stands for which status.
#include "errors.h"

#include <string>

#include "onnx/wire/parser.h"

namespace nb = nanobind;

namespace forethought::python {
namespace {

const char* exception_for(const Status& status, During during) {
  const bool loading = during == During::load;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      if (!loading) return "InvalidArgument";
      return status.GetPayload(wire::kNotReadable) ? "InvalidProtobuf" : "InvalidGraph";
    case absl::StatusCode::kNotFound:
      return loading ? "NotFound" : "InvalidArgument";
    case absl::StatusCode::kUnimplemented:
      return "NotImplemented";
    case absl::StatusCode::kResourceExhausted:
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

void raise_named(const char* name, std::string_view message) {
  nb::object type = nb::module_::import_("forethought._errors").attr(name);
  PyErr_SetObject(type.ptr(), text(message).ptr());
  throw nb::python_error();
}

void raise(const Status& status, During during) {
  raise_named(exception_for(status, during), {status.message().data(), status.message().size()});
}

}  // namespace forethought::python
