// The element types of ONNX, with their numbers from TensorProto.DataType.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/half.h"

namespace forethought {

// clang-format off
enum class DType : uint8_t {
  kUndefined = 0, kFloat = 1, kUint8 = 2, kInt8 = 3, kUint16 = 4, kInt16 = 5, kInt32 = 6, kInt64 = 7, kString = 8,
  kBool = 9, kFloat16 = 10, kDouble = 11, kUint32 = 12, kUint64 = 13, kComplex64 = 14, kComplex128 = 15,
  kBFloat16 = 16, kFloat8E4M3FN = 17, kFloat8E4M3FNUZ = 18, kFloat8E5M2 = 19, kFloat8E5M2FNUZ = 20, kUint4 = 21,
  kInt4 = 22, kFloat4E2M1 = 23, kFloat8E8M0 = 24, kUint2 = 25, kInt2 = 26,
};
// clang-format on
constexpr int kDTypeCount = 27;

// Facts of one type. `bits` is 0 for strings (and undefined), 2 or 4 for the packed types.
struct DTypeInfo {
  DType dtype;
  const char* name;        // ours: "f32"
  const char* onnx_name;   // TensorProto's: "FLOAT"
  const char* type_name;   // the schemas' and onnxruntime's: "tensor(float)" is "float" here
  const char* numpy_name;  // "float32"; ml_dtypes' names for what NumPy lacks
  int bits;
};
const DTypeInfo& info(DType dtype);
inline const char* name(DType dtype) { return info(dtype).name; }
inline int bit_width(DType dtype) { return info(dtype).bits; }
bool is_valid_dtype(int64_t number);                          // a number of TensorProto.DataType other than 0
std::optional<DType> dtype_from_name(std::string_view name);  // any of the four spellings

bool is_floating(DType dtype);  // f64, f32, f16, bf16
bool is_integer(DType dtype);   // 8 to 64 bits, signed or not
bool is_signed_integer(DType dtype);

// Bytes of `elements` packed elements (sub-byte types round up); nullopt on overflow, negative counts or strings.
std::optional<int64_t> byte_size(DType dtype, int64_t elements);

// A set of element types, usable in constant expressions: `kFloats | DType::kBool`.
struct TypeSet {
  uint32_t mask = 0;
  constexpr TypeSet() = default;
  constexpr TypeSet(DType t) : mask(1u << static_cast<int>(t)) {}
  constexpr explicit TypeSet(uint32_t m) : mask(m) {}
  constexpr bool contains(DType t) const { return (mask >> static_cast<int>(t)) & 1u; }
  constexpr TypeSet operator|(TypeSet o) const { return TypeSet(mask | o.mask); }
};
constexpr TypeSet operator|(DType a, DType b) { return TypeSet(a) | TypeSet(b); }
constexpr TypeSet kFloats = TypeSet(DType::kFloat) | DType::kDouble | DType::kFloat16 | DType::kBFloat16;
constexpr TypeSet kSignedInts = TypeSet(DType::kInt8) | DType::kInt16 | DType::kInt32 | DType::kInt64;
constexpr TypeSet kUnsignedInts = TypeSet(DType::kUint8) | DType::kUint16 | DType::kUint32 | DType::kUint64;
constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
constexpr TypeSet kNumbers = kFloats | kInts;
constexpr TypeSet kFixedWidth = kNumbers | DType::kBool;  // one or more whole bytes, arithmetic or bool
constexpr TypeSet kPlain = kFixedWidth | DType::kString;  // what this runtime's kernels move
constexpr TypeSet kIndices = TypeSet(DType::kInt32) | DType::kInt64;
std::string to_string(TypeSet set);  // "f32, f64"

// DType of a C++ type and back.
// clang-format off
template <typename T> struct DTypeOf;
#define FT_DTYPE_OF(T, d) template <> struct DTypeOf<T> { static constexpr DType value = DType::d; };
FT_DTYPE_OF(float, kFloat) FT_DTYPE_OF(double, kDouble) FT_DTYPE_OF(Float16, kFloat16) FT_DTYPE_OF(BFloat16, kBFloat16)
FT_DTYPE_OF(int8_t, kInt8) FT_DTYPE_OF(int16_t, kInt16) FT_DTYPE_OF(int32_t, kInt32) FT_DTYPE_OF(int64_t, kInt64)
FT_DTYPE_OF(uint8_t, kUint8) FT_DTYPE_OF(uint16_t, kUint16) FT_DTYPE_OF(uint32_t, kUint32)
FT_DTYPE_OF(uint64_t, kUint64) FT_DTYPE_OF(bool, kBool) FT_DTYPE_OF(std::string, kString)
#undef FT_DTYPE_OF
    // clang-format on
    template <typename T>
    constexpr DType dtype_of = DTypeOf<T>::value;

// A list of C++ types for dispatch().
template <typename... T>
struct Types {};
using FloatTypes = Types<float, double, Float16, BFloat16>;
using NativeFloatTypes = Types<float, double>;
using SignedIntTypes = Types<int8_t, int16_t, int32_t, int64_t>;
using IntTypes = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumberTypes =
    Types<float, double, Float16, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;

// Calls f.template operator()<T>() for the T of the list that `dtype` names and returns true; false if none does.
template <typename... T, typename F>
bool dispatch(DType dtype, Types<T...>, F&& f) {
  return ((dtype == dtype_of<T> ? (f.template operator()<T>(), true) : false) || ...);
}

}  // namespace forethought
