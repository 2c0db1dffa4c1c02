// Conversion between NumPy arrays (through the array interface, with no NumPy headers) and Values.
#include "convert.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "allocator.h"
#include "dlpack.h"
#include "errors.h"
#include "memory/block_pool.h"
#include "session/lent_inputs.h"
#include "session/session.h"

namespace forethought::python {
namespace {

// NumPy's documented C struct behind __array_struct__.
struct ArrayInterface {
  int two;
  int nd;
  char typekind;
  int itemsize;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;
  void* data;
  PyObject* descr;
};
constexpr int kContiguous = 0x1, kAligned = 0x100, kNativeOrder = 0x200;

// References that live as long as the process.
struct Numpy {
  nb::object ndarray, array, copyto, generic;
  nb::list dtypes;        // by DType; None where NumPy has no such type
  nb::dict dtype_number;  // dtype → DType
  nb::object object_dtype;
};
Numpy* numpy = nullptr;

// Memory of an output, as the base of an array.
struct Lease {
  Tensor tensor;
  bool read_only = false;
};

int lease_buffer(PyObject* self, Py_buffer* view, int flags) {
  static char nothing;
  Lease* lease = nb::inst_ptr<Lease>(nb::handle(self));
  void* data = lease->tensor.data ? lease->tensor.data : &nothing;
  return PyBuffer_FillInfo(view, self, data, lease->tensor.bytes(), lease->read_only ? 1 : 0, flags);
}
PyType_Slot lease_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(lease_buffer)}, {0, nullptr}};

std::string type_name_of(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

Tensor string_tensor(nb::handle array) {
  Tensor t = check(make_tensor(DType::kString, dims_of(array.attr("shape"))), During::run);
  nb::object items = array.attr("ravel")().attr("tolist")();
  std::string* out = t.as<std::string>();
  nb::object keep;
  for (nb::handle item : items) {
    if (!PyUnicode_Check(item.ptr()) && !PyBytes_Check(item.ptr()))
      raise_named("InvalidArgument",
                  "a string tensor holds a " + type_name_of(item) + "; its elements must be str or bytes");
    *out++ = bytes_of(item, &keep);
  }
  return t;
}

// NumPy (ml_dtypes) keeps one sub-byte element a byte, ONNX packs them from the low bits up.
Tensor packed_tensor(DType dtype, const Dims& dims, const uint8_t* bytes, Feeding* feeding) {
  Tensor t = check_room(room_for(dtype, dims, *feeding), *feeding);
  const int bits = bit_width(dtype), per_byte = 8 / bits;
  const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
  if (t.bytes() > 0) std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
  for (int64_t i = 0, n = t.elements(); i < n; ++i)
    t.as<uint8_t>()[i / per_byte] |= static_cast<uint8_t>((bytes[i] & mask) << (i % per_byte * bits));
  ++feeding->copies;
  feeding->copied_bytes += t.bytes();
  return t;
}

Tensor unpacked_tensor(const Tensor& t) {
  const int bits = bit_width(t.dtype), per_byte = 8 / bits;
  const bool is_signed = t.dtype == DType::kInt4 || t.dtype == DType::kInt2;
  Tensor out = check(make_tensor(DType::kUint8, t.dims), During::run);
  for (int64_t i = 0, n = t.elements(); i < n; ++i) {
    const uint8_t raw = static_cast<uint8_t>(t.as<uint8_t>()[i / per_byte] >> (i % per_byte * bits)) &
                        static_cast<uint8_t>((1 << bits) - 1);
    const bool negative = is_signed && (raw >> (bits - 1)) != 0;
    out.as<uint8_t>()[i] = negative ? static_cast<uint8_t>(raw - (1 << bits)) : raw;
  }
  return out;
}

nb::object array_over(Tensor t, bool read_only) {
  nb::list shape;
  for (int64_t d : t.dims) shape.append(d);
  nb::object dtype = nb::object(numpy->dtypes[static_cast<size_t>(t.dtype)]);
  if (bit_width(t.dtype) < 8) t = unpacked_tensor(t);
  nb::object lease = nb::cast(Lease{std::move(t), read_only});
  return numpy->ndarray(nb::tuple(shape), dtype, lease);
}

// An array's memory, through the array interface.
class ArrayView {
 public:
  explicit ArrayView(nb::handle array) : interface_(array.attr("__array_struct__")) {
    array_ = static_cast<const ArrayInterface*>(PyCapsule_GetPointer(interface_.ptr(), nullptr));
    if (!array_) throw nb::python_error();
  }
  // Whether a tensor can be over it as it is.
  bool is_plain() const {
    constexpr int kWanted = kContiguous | kAligned | kNativeOrder;
    return (array_->flags & kWanted) == kWanted;
  }
  // Over it in its own steps; nothing if elements are not aligned or in another byte order.
  std::optional<Tensor> strided(DType type) const {
    constexpr int kWanted = kAligned | kNativeOrder;
    if ((array_->flags & kWanted) != kWanted) return std::nullopt;
    Tensor t;
    t.dtype = type;
    t.dims = dims();
    t.data = array_->data;
    for (int d = 0; d < array_->nd; ++d) {
      if (array_->strides[d] % array_->itemsize) return std::nullopt;
      t.strides.push_back(array_->strides[d] / array_->itemsize);
    }
    return t;
  }
  Dims dims() const { return Dims(array_->shape, array_->shape + array_->nd); }
  void* data() const { return array_->data; }
  const uint8_t* bytes() const { return static_cast<const uint8_t*>(array_->data); }

 private:
  nb::object interface_;
  const ArrayInterface* array_;
};

// `made`: the array is NumPy's conversion of something else, and nobody's but ours.
Value tensor_from_array(nb::object array, Feeding* feeding, bool made = false) {
  nb::object dtype = array.attr("dtype");
  DType type = dtype_of_numpy(dtype);
  if (type == DType::kUndefined) {
    nb::object native = dtype.attr("newbyteorder")("=");
    type = dtype_of_numpy(native);
    nb::object keep;
    if (type == DType::kUndefined)
      raise_named("InvalidArgument",
                  "arrays of NumPy's type " + std::string(bytes_of(nb::str(dtype), &keep)) + " have no ONNX type");
  }
  if (type == DType::kString) return string_tensor(array);
  const ArrayView view(array);
  if (bit_width(type) < 8) {
    if (view.is_plain()) return packed_tensor(type, view.dims(), view.bytes(), feeding);
    const nb::object plain = numpy->array(array, nb::arg("order") = "C", nb::arg("copy") = true);
    return packed_tensor(type, view.dims(), ArrayView(plain).bytes(), feeding);
  }
  if (!view.is_plain() && feeding->lends && !made) {
    const auto& inputs = feeding->session->inputs();
    const auto input = std::ranges::find(inputs, feeding->name, &NodeArg::name);
    std::optional<Tensor> lent = view.strided(type);
    if (input != inputs.end() && lent && lent->elements() > 0 &&
        reads_in_place(*feeding->session, static_cast<size_t>(input - inputs.begin()), *lent)) {
      feeding->keep.push_back(std::move(array));
      return *std::move(lent);
    }
  }
  if (!view.is_plain() || (made && feeding->session)) {
    Tensor copy = check_room(room_for(type, view.dims(), *feeding), *feeding);
    numpy->copyto(array_over(copy, false), array);
    ++feeding->copies;
    feeding->copied_bytes += copy.bytes();
    return copy;
  }
  Tensor t;
  t.dtype = type;
  t.dims = view.dims();
  t.data = view.data();
  feeding->keep.push_back(std::move(array));
  return t;
}

Value sequence_from(nb::handle object, const ValueType& element, Feeding* feeding) {
  auto sequence = std::make_shared<Sequence>();
  sequence->element = element;
  for (nb::handle item : object) sequence->items.push_back(from_python(item, element, feeding));
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

nb::object strings_to_python(const Tensor& t) {
  nb::list items, shape;
  for (const std::string& s : t.strings()) {
    items.append(exact_text(s));  // strings of ONNX are UTF-8 by promise only
  }
  for (int64_t d : t.dims) shape.append(d);
  return numpy->array(items, nb::arg("dtype") = numpy->object_dtype).attr("reshape")(nb::tuple(shape));
}

nb::object map_to_python(const MapValue& map) {
  nb::object values = to_python(map.values).attr("tolist")();
  nb::dict out;
  size_t i = 0;
  for (nb::handle v : values) {
    if (map.key == DType::kString) {
      out[exact_text(map.string_keys[i])] = v;
    } else {
      out[nb::int_(map.int_keys[i])] = v;
    }
    ++i;
  }
  return out;
}

bool is_owned(const Value& value) {
  if (value.is_tensor()) return static_cast<bool>(value.tensor().owner) || !value.tensor().data;
  if (const Sequence* s = value.sequence()) {
    for (const Value& item : s->items)
      if (!is_owned(item)) return false;
  }
  return true;
}

Tensor copy_of(const Tensor& t) {
  Tensor copy = check(make_tensor(t.dtype, t.dims), During::run);
  if (t.dtype == DType::kString) {
    std::copy(t.strings().begin(), t.strings().end(), copy.as<std::string>());
  } else if (t.bytes() > 0) {
    std::memcpy(copy.data, t.data, static_cast<size_t>(t.bytes()));
  }
  return copy;
}

}  // namespace

void init_convert(nb::module_& module) {
  nb::class_<Lease>(module, "Lease", nb::type_slots(lease_slots),
                    "Memory of a result, kept as long as an array needs it.");
  nb::module_ np = nb::module_::import_("numpy");
  nb::module_ types = nb::module_::import_("forethought._dtypes");
  numpy = new Numpy{np.attr("ndarray"),
                    np.attr("array"),
                    np.attr("copyto"),
                    np.attr("generic"),
                    nb::cast<nb::list>(types.attr("BY_NUMBER")),
                    nb::cast<nb::dict>(types.attr("NUMBER_OF")),
                    np.attr("dtype")("O")};
}

Dims dims_of(nb::handle list) {
  Dims dims;
  for (nb::handle item : list) {
    const nb::object whole = nb::steal(PyNumber_Index(item.ptr()));
    const long long n = whole.is_valid() ? PyLong_AsLongLong(whole.ptr()) : -1;
    if (PyErr_Occurred()) throw nb::python_error();
    dims.push_back(n);
  }
  return dims;
}

std::map<std::string, std::string> texts_of(nb::dict entries) {
  std::map<std::string, std::string> texts;
  nb::object keep_key, keep_value;
  for (auto [key, value] : entries) texts[std::string(bytes_of(key, &keep_key))] = bytes_of(value, &keep_value);
  return texts;
}

DType dtype_of_numpy(nb::handle dtype) {
  PyObject* number = PyDict_GetItemWithError(numpy->dtype_number.ptr(), dtype.ptr());
  if (number) return static_cast<DType>(PyLong_AsLong(number));
  if (PyErr_Occurred()) throw nb::python_error();
  const auto kind = nb::cast<std::string>(dtype.attr("kind"));
  return kind == "U" || kind == "S" || kind == "O" ? DType::kString : DType::kUndefined;
}

int64_t bytes_to_copy(nb::handle object) {
  if (!nb::isinstance(object, numpy->ndarray) || ArrayView(object).is_plain()) return 0;
  return BlockPool::class_bytes(nb::cast<int64_t>(object.attr("nbytes")));
}

Tensor check_room(StatusOr<Tensor> room, const Feeding& feeding) {
  if (feeding.session) check_run(*feeding.session, room.status());
  return check(std::move(room), During::run);
}

StatusOr<Tensor> room_for(DType dtype, std::span<const int64_t> dims, const Feeding& feeding) {
  if (!feeding.session) return make_tensor(dtype, dims);
  const auto to_come = [&] {
    if (!feeding.to_come) return int64_t{0};
    nb::gil_scoped_acquire lock;
    return feeding.to_come();
  };
  nb::gil_scoped_release release;  // memory that comes from a caller may want the lock
  return feeding.session->take_io(dtype, dims, feeding.name, to_come);
}

Value from_python(nb::handle object, const ValueType& want, Feeding* feeding) {
  if (object.is_none()) return {};
  HeldValue* held = nullptr;
  if (nb::try_cast(object, held) && held) {
    if (held->keep.is_valid()) feeding->keep.push_back(held->keep);
    return held->value;
  }
  if (want.kind() == ValueType::Kind::optional) return from_python(object, *want.inner(), feeding);
  const bool is_list = PyList_Check(object.ptr()) || PyTuple_Check(object.ptr());
  if (want.kind() == ValueType::Kind::sequence) {
    if (!is_list)
      raise_named("InvalidArgument", to_string(want) + " is wanted: a list; what came is a " + type_name_of(object));
    return sequence_from(object, *want.inner(), feeding);
  }
  if (nb::isinstance(object, numpy->ndarray)) return tensor_from_array(nb::borrow(object), feeding);
  if (want.kind() == ValueType::Kind::map || want.kind() == ValueType::Kind::sparse_tensor)
    raise_named("NotImplemented", to_string(want) + " cannot be fed from Python yet");
  if (is_list || nb::isinstance(object, numpy->generic)) {
    nb::object dtype = want.is_tensor() && is_list ? nb::object(numpy->dtypes[static_cast<size_t>(want.dtype())])
                                                   : nb::object(nb::none());
    return tensor_from_array(numpy->array(object, dtype), feeding, true);
  }
  if (PyObject_HasAttrString(object.ptr(), "__dlpack__")) {
    HeldValue imported = from_dlpack(object, *feeding);
    feeding->copies += imported.copied_bytes > 0;
    feeding->copied_bytes += imported.copied_bytes;
    return std::move(imported.value);
  }
  const std::string message = "Unable to handle object of type <class '" + type_name_of(object) + "'>";
  PyErr_SetString(PyExc_RuntimeError, message.c_str());
  throw nb::python_error();
}

nb::object to_python(const Value& value, bool read_only) {
  if (value.is_none()) return nb::none();
  if (value.is_tensor()) {
    const Tensor& t = value.tensor();
    if (t.dtype == DType::kString) return strings_to_python(t);
    return is_owned(value) ? array_over(t, read_only) : array_over(copy_of(t), false);
  }
  if (const Sequence* s = value.sequence()) {
    nb::list out;
    for (const Value& item : s->items) out.append(to_python(item));
    return out;
  }
  if (const MapValue* map = value.map()) return map_to_python(*map);
  raise_named("NotImplemented", "sparse tensors cannot be given to Python yet");
}

Value owned(const Value& value) {
  if (is_owned(value)) return value;
  if (value.is_tensor()) return copy_of(value.tensor());
  auto sequence = std::make_shared<Sequence>();
  sequence->element = value.sequence()->element;
  for (const Value& item : value.sequence()->items) sequence->items.push_back(owned(item));
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

}  // namespace forethought::python
