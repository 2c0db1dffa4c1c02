#include "base/dtype.h"

#include <array>

#include "base/checked.h"

namespace forethought {
namespace {
constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{
    {DType::kUndefined, "undefined", "UNDEFINED", "undefined", "void", 0},
    {DType::kFloat, "f32", "FLOAT", "float", "float32", 32},
    {DType::kUint8, "u8", "UINT8", "uint8", "uint8", 8},
    {DType::kInt8, "i8", "INT8", "int8", "int8", 8},
    {DType::kUint16, "u16", "UINT16", "uint16", "uint16", 16},
    {DType::kInt16, "i16", "INT16", "int16", "int16", 16},
    {DType::kInt32, "i32", "INT32", "int32", "int32", 32},
    {DType::kInt64, "i64", "INT64", "int64", "int64", 64},
    {DType::kString, "str", "STRING", "string", "object", 0},
    {DType::kBool, "bool", "BOOL", "bool", "bool", 8},
    {DType::kFloat16, "f16", "FLOAT16", "float16", "float16", 16},
    {DType::kDouble, "f64", "DOUBLE", "double", "float64", 64},
    {DType::kUint32, "u32", "UINT32", "uint32", "uint32", 32},
    {DType::kUint64, "u64", "UINT64", "uint64", "uint64", 64},
    {DType::kComplex64, "c64", "COMPLEX64", "complex64", "complex64", 64},
    {DType::kComplex128, "c128", "COMPLEX128", "complex128", "complex128", 128},
    {DType::kBFloat16, "bf16", "BFLOAT16", "bfloat16", "bfloat16", 16},
    {DType::kFloat8E4M3FN, "f8e4m3fn", "FLOAT8E4M3FN", "float8e4m3fn", "float8_e4m3fn", 8},
    {DType::kFloat8E4M3FNUZ, "f8e4m3fnuz", "FLOAT8E4M3FNUZ", "float8e4m3fnuz", "float8_e4m3fnuz", 8},
    {DType::kFloat8E5M2, "f8e5m2", "FLOAT8E5M2", "float8e5m2", "float8_e5m2", 8},
    {DType::kFloat8E5M2FNUZ, "f8e5m2fnuz", "FLOAT8E5M2FNUZ", "float8e5m2fnuz", "float8_e5m2fnuz", 8},
    {DType::kUint4, "u4", "UINT4", "uint4", "uint4", 4},
    {DType::kInt4, "i4", "INT4", "int4", "int4", 4},
    {DType::kFloat4E2M1, "f4e2m1", "FLOAT4E2M1", "float4e2m1", "float4_e2m1fn", 4},
    {DType::kFloat8E8M0, "f8e8m0", "FLOAT8E8M0", "float8e8m0", "float8_e8m0fnu", 8},
    {DType::kUint2, "u2", "UINT2", "uint2", "uint2", 2},
    {DType::kInt2, "i2", "INT2", "int2", "int2", 2},
}};
}  // namespace

const DTypeInfo& info(DType dtype) {
  const auto i = static_cast<size_t>(dtype);
  return kInfo[i < kInfo.size() ? i : 0];
}

bool is_valid_dtype(int64_t number) { return number > 0 && number < kDTypeCount; }

std::optional<DType> dtype_from_name(std::string_view n) {
  for (const DTypeInfo& i : kInfo)
    if (n == i.name || n == i.onnx_name || n == i.type_name || n == i.numpy_name) return i.dtype;
  return std::nullopt;
}

bool is_floating(DType t) { return kFloats.contains(t); }
bool is_integer(DType t) { return kInts.contains(t); }
bool is_signed_integer(DType t) { return kSignedInts.contains(t); }

std::optional<int64_t> byte_size(DType dtype, int64_t elements) {
  const int bits = bit_width(dtype);
  if (bits == 0 || elements < 0) return std::nullopt;
  if (bits >= 8) return checked_mul(elements, bits / 8);
  const int per_byte = 8 / bits;
  return elements / per_byte + (elements % per_byte != 0);
}

std::string to_string(TypeSet set) {
  std::string s;
  for (const DTypeInfo& i : kInfo)
    if (set.contains(i.dtype)) s += (s.empty() ? "" : ", ") + std::string(i.name);
  return s;
}

}  // namespace forethought
