// Values as they exist in memory: tensors (of numbers or strings), sequences, maps, sparse tensors, absent optionals.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "tensor/shape.h"
#include "tensor/type.h"

namespace forethought {

// Elements in memory and what keeps them there. Copying shares the bytes. `owner` null: borrowed from a caller who
// keeps them alive. `data` of a string tensor points to std::string objects. Sub-byte types are packed (element_count
// bits).
struct Tensor {
  DType dtype = DType::kUndefined;
  Dims dims;
  Layout layout;
  Device device;
  void* data = nullptr;  // the first element
  BufferRef owner;
  // Of an input that a caller lends as it lies: elements between neighbours along each dim, 0 where it repeats and
  // negative where it runs backwards. Empty, as everywhere else: row-major.
  Dims strides;

  int64_t elements() const { return element_count(dims).value_or(0); }
  int64_t bytes() const { return storage_bytes(dtype, layout, dims).value_or(0); }
  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  template <typename T>
  T* as() {
    return static_cast<T*>(data);
  }
  std::span<const std::string> strings() const { return {as<std::string>(), static_cast<size_t>(elements())}; }
};

// A tensor with memory of its own on the heap, zero-filled (64-byte aligned; strings constructed). For constants, tests
// and tools; runs take their memory from arenas instead. Fails on sizes that overflow or cannot be had.
StatusOr<Tensor> make_tensor(DType dtype, std::span<const int64_t> dims);

// The same, filled with `values` (converted to nothing: T must be the dtype's C++ type).
template <typename T>
Tensor tensor_of(std::initializer_list<int64_t> dims, const std::vector<T>& values);

class Value;
struct Sequence;
struct MapValue;
struct SparseTensor;

// Any ONNX value. The empty Value is an absent optional (or a value not set yet).
class Value {
 public:
  Value() = default;
  Value(Tensor t) : v_(std::move(t)) {}                               // NOLINT
  Value(std::shared_ptr<const Sequence> s) : v_(std::move(s)) {}      // NOLINT
  Value(std::shared_ptr<const MapValue> m) : v_(std::move(m)) {}      // NOLINT
  Value(std::shared_ptr<const SparseTensor> s) : v_(std::move(s)) {}  // NOLINT

  bool is_none() const { return v_.index() == 0; }
  bool is_tensor() const { return v_.index() == 1; }
  const Tensor& tensor() const { return std::get<1>(v_); }
  Tensor& tensor() { return std::get<1>(v_); }
  const Sequence* sequence() const { return get<2, Sequence>(); }  // null if it is something else
  const MapValue* map() const { return get<3, MapValue>(); }
  const SparseTensor* sparse() const { return get<4, SparseTensor>(); }
  std::shared_ptr<const Sequence> shared_sequence() const { return v_.index() == 2 ? std::get<2>(v_) : nullptr; }

 private:
  template <size_t I, typename T>
  const T* get() const {
    return v_.index() == I ? std::get<I>(v_).get() : nullptr;
  }
  std::variant<std::monostate, Tensor, std::shared_ptr<const Sequence>, std::shared_ptr<const MapValue>,
               std::shared_ptr<const SparseTensor>>
      v_;
};

struct Sequence {
  ValueType element;  // tensor, or map for sequences of maps
  std::vector<Value> items;
};
// Keys are int64 or string, as `key` says; values one tensor in the order of the keys.
struct MapValue {
  DType key = DType::kInt64;
  std::vector<int64_t> int_keys;
  std::vector<std::string> string_keys;
  Value values;
};
// COO: `indices` i64, [nnz] linearised or [nnz, rank].
struct SparseTensor {
  Tensor values;
  Tensor indices;
  Dims dims;
};

template <typename T>
Tensor tensor_of(std::initializer_list<int64_t> dims, const std::vector<T>& values) {
  Tensor t = make_tensor(dtype_of<T>, Dims(dims)).value();
  for (size_t i = 0; i < values.size(); ++i) t.as<T>()[i] = values[i];
  return t;
}

}  // namespace forethought
