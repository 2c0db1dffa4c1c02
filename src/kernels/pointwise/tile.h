// Tiles: the unit of pointwise work. A tile function does one operator on up to kTile elements of cached data, in one
// type.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace forethought::kernels {

// Elements a tile: eight bytes each, a handful of tiles fit the first-level cache.
constexpr int64_t kTile = 1024;

// One operand of a tile function: n elements, or one that stands for all of them.
struct TileArg {
  const void* data = nullptr;
  bool scalar = false;
};

// The attributes of an operator, as its functor reads them (functors.inc).
struct TileParams {
  double alpha = 0;
  double beta = 0;
};

// Computes out[0, n) from args. `out` may be the data of an argument whose elements have out's size; n has no upper
// bound. Nothing is read beyond n elements (one for a scalar), and no alignment is asked for.
using TileFn = void (*)(const TileArg* args, void* out, int64_t n, const TileParams& params);

enum class PointwiseOp : uint8_t {
#define OP(name, arity, ints, simd) name,
#include "kernels/pointwise/ops.inc"
#undef OP
};
const char* name(PointwiseOp op);
int arity(PointwiseOp op);

// The type in which values of `dtype` are computed: f32 for the half types, else `dtype` itself.
inline DType work_type(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat : dtype;
}

// Each finder returns null where there is no such function. `work` types: f32, f64 and the integers.
// f32 functions have SIMD versions (within 4 ulp of, or 1.2e-7 from, the exact value; the plain ones are libm's).
// Integers wrap; x / 0 is 0. Min, Max, Relu and Clip propagate NaN.
TileFn find_tile(Isa isa, PointwiseOp op, DType work);
// base ^ exponent in the type of the base (f32, f64, i32, i64); exponents are f32 (of an f32 base), f64, i64 or u64.
TileFn find_pow_tile(DType base, DType exponent);
// Bytes of bool: 1 where the operands are equal. All work types and bool; NaN equals nothing.
TileFn find_equal_tile(Isa isa, DType work);
// Bytes of bool: 1 where a < b (or a ≤ b). All work types; comparisons with NaN do not hold.
TileFn find_less_tile(DType work, bool or_equal);
// Of bytes of bool, of which any but 0 is true.
enum class LogicOp : uint8_t { And, Or, Xor };
TileFn find_logic_tile(LogicOp op);
// Bits of the integers, and remainders of all work types: Mod's has the sign of the divisor, Fmod's of the dividend; an
// integer's by 0 is 0. Shifts by less than 0 or as many bits as there are leave nothing but the sign.
enum class IntegerOp : uint8_t { And, Or, Xor, ShiftLeft, ShiftRight, Mod, Fmod };
TileFn find_integer_tile(IntegerOp op, DType work);
TileFn find_bit_not_tile(DType work);
// condition (bytes of bool) ? a : b, for elements of 1, 2, 4 or 8 bytes.
TileFn find_where_tile(Isa isa, int width);
TileFn find_not_tile();
// Among f64, f32, f16, bf16, the integers and bool. Floats round to nearest even; float to integer truncates, and
// beyond the integer's range gives what x86 gives (the lowest value for 32 and 64 bits, the low bits of that for
// narrower ones); integers keep their low bits; bool is 1 for everything but zero.
TileFn find_cast_tile(Isa isa, DType from, DType to);
// saturate(round(quotient) + zero point), rounding half to even; NaN gives the lowest value. args: quotient (f32 or
// f64), zero point of the result's type (8- and 16-bit integers).
TileFn find_quantize_tile(Isa isa, DType quotient, DType to);
// f32 of (x - zero point), both of one type: 8- and 16-bit integers, i32.
TileFn find_dequantize_tile(Isa isa, DType from);

}  // namespace forethought::kernels
