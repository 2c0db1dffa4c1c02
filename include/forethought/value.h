// Values that go into a model and come out of it: tensors, sequences, maps, absent optionals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forethought/lease.h"
#include "forethought/status.h"

FORETHOUGHT_BEGIN_NAMESPACE

// The element types of ONNX, with their numbers from TensorProto.DataType.
enum class ElementType : int {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  complex64 = 14,
  complex128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};
FORETHOUGHT_EXPORT const char* name(ElementType type);  // ONNX's: "float", "int64"

// clang-format off
template <typename T> struct ElementTypeOf { static constexpr ElementType value = ElementType::undefined; };
template <> struct ElementTypeOf<float> { static constexpr ElementType value = ElementType::f32; };
template <> struct ElementTypeOf<double> { static constexpr ElementType value = ElementType::f64; };
template <> struct ElementTypeOf<uint8_t> { static constexpr ElementType value = ElementType::u8; };
template <> struct ElementTypeOf<int8_t> { static constexpr ElementType value = ElementType::i8; };
template <> struct ElementTypeOf<uint16_t> { static constexpr ElementType value = ElementType::u16; };
template <> struct ElementTypeOf<int16_t> { static constexpr ElementType value = ElementType::i16; };
template <> struct ElementTypeOf<uint32_t> { static constexpr ElementType value = ElementType::u32; };
template <> struct ElementTypeOf<int32_t> { static constexpr ElementType value = ElementType::i32; };
template <> struct ElementTypeOf<uint64_t> { static constexpr ElementType value = ElementType::u64; };
template <> struct ElementTypeOf<int64_t> { static constexpr ElementType value = ElementType::i64; };
template <> struct ElementTypeOf<bool> { static constexpr ElementType value = ElementType::boolean; };
template <> struct ElementTypeOf<std::string> { static constexpr ElementType value = ElementType::string; };
// clang-format on

enum class ValueKind { absent, tensor, sequence, map, sparse_tensor };

// Copies share the bytes, as do the values that a run hands out: they live until the last copy is gone, whatever became
// of the session. A default Value is absent.
class FORETHOUGHT_EXPORT Value {
 public:
  // A tensor with memory of its own, all zeros (or empty strings).
  static Result<Value> tensor(ElementType type, std::span<const int64_t> shape);
  // A tensor over memory of the caller's, row-major, elements aligned to their size. `bytes` must be what the shape
  // needs. `owner` is kept as long as any copy lives; null: the caller keeps the memory for as long as that. For
  // strings `data` points to std::string objects.
  static Result<Value> borrow(ElementType type, std::span<const int64_t> shape, void* data, size_t bytes,
                              std::shared_ptr<void> owner = nullptr);
  template <typename T>
  static Result<Value> borrow(std::span<T> elements, std::span<const int64_t> shape,
                              std::shared_ptr<void> owner = nullptr);
  // The same where elements lie `strides` elements apart along each dim, 0 where one repeats and negative where they
  // run backwards, the first of them `first` elements behind `data`; none may reach outside of `bytes`. For an input: a
  // run reads it where it lies if all that reads the input can, else it makes a copy in the session's memory. Has
  // neither elements() nor a lease, leaves through no DLPack and can be bound to no output.
  static Result<Value> borrow_strided(ElementType type, std::span<const int64_t> shape,
                                      std::span<const int64_t> strides, int64_t first, void* data, size_t bytes,
                                      std::shared_ptr<void> owner = nullptr);
  // A tensor with a copy of the elements.
  template <typename T>
  static Result<Value> copy_of(std::span<const T> elements, std::span<const int64_t> shape);
  // A tensor over memory that was leased from another value, row-major; the lease must have enough bytes, and is empty
  // afterwards.
  static Result<Value> over(Lease lease, ElementType type, std::span<const int64_t> shape);
  // A sequence; its elements are shared. All have to be tensors of one element type.
  static Result<Value> sequence(ElementType element, std::span<const Value> elements);

  Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  ValueKind kind() const;
  bool is_absent() const { return kind() == ValueKind::absent; }

  // Of tensors; of other kinds: undefined, empty, 0, null.
  ElementType element_type() const;
  std::span<const int64_t> shape() const;
  std::span<const int64_t> strides() const;  // in elements; empty: row-major
  int64_t element_count() const;
  size_t byte_size() const;
  const void* data() const;
  void* mutable_data();         // every copy of this value sees what is written; null if the memory is read-only
  bool read_only() const;       // the memory came with that condition (from_dlpack)
  size_t copied_bytes() const;  // that were copied when the value was made of foreign memory; 0: it is that memory
  // The memory of a tensor, held apart from the value. An error if a caller keeps it (borrow with no owner).
  Result<Lease> lease() const;
  // The elements as T; an error if this is no tensor of T.
  template <typename T>
  Result<std::span<const T>> elements() const;
  template <typename T>
  Result<std::span<T>> mutable_elements();

  // Of sequences: its elements. An index beyond the end gives an absent value.
  size_t size() const;
  Value at(size_t index) const;

  // Of maps: keys (of one of these types) and the tensor of values in their order.
  std::span<const int64_t> int_keys() const;
  std::span<const std::string> string_keys() const;
  Value map_values() const;

  struct Rep;  // the library's
  explicit Value(std::shared_ptr<Rep> rep);
  const std::shared_ptr<Rep>& rep() const { return rep_; }

 private:
  Status require_elements(ElementType type) const;
  std::shared_ptr<Rep> rep_;
};

template <typename T>
Result<Value> Value::borrow(std::span<T> elements, std::span<const int64_t> shape, std::shared_ptr<void> owner) {
  static_assert(ElementTypeOf<T>::value != ElementType::undefined, "use the form that names the element type");
  return borrow(ElementTypeOf<T>::value, shape, elements.data(), elements.size_bytes(), std::move(owner));
}

template <typename T>
Result<Value> Value::copy_of(std::span<const T> elements, std::span<const int64_t> shape) {
  Result<Value> value = tensor(ElementTypeOf<T>::value, shape);
  if (!value) return value;
  auto to = value->template mutable_elements<T>();
  if (!to) return to.status();
  if (to->size() != elements.size())
    return Status(ErrorCode::invalid_argument, "the shape wants " + std::to_string(to->size()) + " elements; " +
                                                   std::to_string(elements.size()) + " came");
  for (size_t i = 0; i < elements.size(); ++i) (*to)[i] = elements[i];
  return value;
}

template <typename T>
Result<std::span<const T>> Value::elements() const {
  if (Status s = require_elements(ElementTypeOf<T>::value); !s.ok()) return s;
  return std::span<const T>(static_cast<const T*>(data()), static_cast<size_t>(element_count()));
}

template <typename T>
Result<std::span<T>> Value::mutable_elements() {
  if (Status s = require_elements(ElementTypeOf<T>::value); !s.ok()) return s;
  if (read_only()) return Status(ErrorCode::invalid_argument, "the memory of the tensor is read-only: copy it");
  return std::span<T>(static_cast<T*>(mutable_data()), static_cast<size_t>(element_count()));
}

FORETHOUGHT_END_NAMESPACE
