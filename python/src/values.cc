// Values that Python holds between runs: what stands behind OrtValue.
#include "values.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>

#include "dlpack.h"
#include "errors.h"

namespace forethought::python {
namespace {

const Tensor& tensor_in(const HeldValue& self) {
  if (self.value.is_tensor()) return self.value.tensor();
  raise_named("Fail", "this OrtValue holds no tensor");
}

std::string data_type(const HeldValue& self) {
  if (self.value.is_tensor()) return to_string(ValueType::tensor(self.value.tensor().dtype));
  if (const Sequence* s = self.value.sequence()) return to_string(ValueType::sequence(s->element));
  raise_named("Fail", "this OrtValue holds nothing");
}

nb::object value_to_python(const HeldValue& self) {
  if (self.keep.is_valid() && self.value.is_tensor() && bit_width(self.value.tensor().dtype) != 0) return self.keep;
  return to_python(self.value, self.read_only);
}

}  // namespace

HeldValue value_from_python(nb::handle object, Feeding feeding) {
  ValueType type;
  if (PyList_Check(object.ptr())) type = ValueType::sequence(ValueType{});
  HeldValue out;
  out.value = from_python(object, type, &feeding);
  out.copied_bytes = feeding.copied_bytes;
  if (out.value.is_tensor() && feeding.keep.size() == 1) {
    out.keep = feeding.keep[0];
    out.read_only = !nb::cast<bool>(out.keep.attr("flags").attr("writeable"));
    return out;
  }
  out.value = owned(out.value);
  if (const Sequence* s = out.value.sequence(); s && !s->items.empty() && s->items[0].is_tensor()) {
    auto typed = std::make_shared<Sequence>(*s);
    typed->element = ValueType::tensor(s->items[0].tensor().dtype);
    out.value = Value(std::shared_ptr<const Sequence>(std::move(typed)));
  }
  return out;
}

namespace {

HeldValue value_of_shape(nb::handle shape, int dtype) {
  if (!is_valid_dtype(dtype)) raise_named("InvalidArgument", "there is no ONNX element type " + std::to_string(dtype));
  return {check(make_tensor(static_cast<DType>(dtype), dims_of(shape)), During::run)};
}

// A tensor over memory that the caller keeps.
HeldValue value_at(uintptr_t pointer, nb::handle shape, int dtype) {
  if (!is_valid_dtype(dtype) || bit_width(static_cast<DType>(dtype)) == 0)
    raise_named("InvalidArgument", "memory cannot be bound as ONNX element type " + std::to_string(dtype));
  Tensor t;
  t.dtype = static_cast<DType>(dtype);
  t.dims = dims_of(shape);
  const auto elements = element_count(t.dims);
  if (!elements)
    raise_named("InvalidArgument", "impossible shape " + to_string(t.dims) +
                                       "; dims are at least 0, and all of them together a size that memory has");
  if (pointer == 0 && *elements > 0)
    raise_named("InvalidArgument", "the address is 0; give that of the first element (array.ctypes.data)");
  t.data = reinterpret_cast<void*>(pointer);
  return {std::move(t)};
}

void update_inplace(HeldValue& self, nb::handle array) {
  Tensor to = tensor_in(self);
  if (self.read_only) raise_named("InvalidArgument", "the memory of this OrtValue is read-only");
  Feeding feeding;
  const Value from = from_python(array, ValueType::tensor(to.dtype), &feeding);
  if (!from.is_tensor() || from.tensor().dtype != to.dtype || from.tensor().dims != to.dims)
    raise_named("InvalidArgument", "update_inplace wants an array of the same type and shape as the OrtValue: " +
                                       data_type(self) + to_string(to.dims));
  if (to.dtype == DType::kString) {
    std::copy(from.tensor().strings().begin(), from.tensor().strings().end(), to.as<std::string>());
  } else if (to.bytes() > 0) {
    std::memmove(to.data, from.tensor().data, static_cast<size_t>(to.bytes()));
  }
}

}  // namespace

const Value& writable(const HeldValue& held, std::string_view output) {
  const std::string what = "the memory bound to output '" + std::string(output) + "' ";
  if (held.read_only) raise_named("InvalidArgument", what + "is read-only; bind memory that can be written");
  if (held.copied_bytes > 0)
    raise_named(
        "InvalidArgument",
        what +
            "is a copy, since its source has strides, another byte order or elements of less than a byte: results "
            "would not reach the source; bind a contiguous array, or a value of its own");
  return held.value;
}

void bind_values(nb::module_& m) {
  nb::class_<HeldValue>(m, "HeldValue", "A value that Python holds.")
      .def("shape",
           [](const HeldValue& v) {
             const Tensor& t = tensor_in(v);
             return std::vector<int64_t>(t.dims.begin(), t.dims.end());
           })
      .def("data_type", &data_type)
      .def("element_type", [](const HeldValue& v) { return static_cast<int>(tensor_in(v).dtype); })
      .def("data_ptr", [](const HeldValue& v) { return reinterpret_cast<uintptr_t>(tensor_in(v).data); })
      .def("bytes", [](const HeldValue& v) { return tensor_in(v).bytes(); })
      .def("is_tensor", [](const HeldValue& v) { return v.value.is_tensor(); })
      .def("is_sequence", [](const HeldValue& v) { return v.value.sequence() != nullptr; })
      .def("is_sparse", [](const HeldValue& v) { return v.value.sparse() != nullptr; })
      .def("has_value", [](const HeldValue& v) { return !v.value.is_none(); })
      .def("to_python", &value_to_python)
      .def("read_only", [](const HeldValue& v) { return v.read_only; })
      .def("copied_bytes", [](const HeldValue& v) { return v.copied_bytes; })
      .def("to_dlpack", &to_dlpack, nb::arg("max_version").none(), nb::arg("dl_device").none(), nb::arg("copy").none())
      .def("update_inplace", &update_inplace, nb::arg("source").none());
  m.def(
      "value_from_dlpack", [](nb::handle source) { return from_dlpack(source, {}); }, nb::arg("source").none());
  m.def(
      "value_from_python", [](nb::handle object) { return value_from_python(object, {}); }, nb::arg("object").none());
  m.def("value_of_shape", &value_of_shape);
  m.def("value_at", &value_at);
}

}  // namespace forethought::python
