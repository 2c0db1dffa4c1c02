// The SIMD halves of the finders in tile.h; each returns null for what it lacks. `isa` is not scalar.
#pragma once

#include "kernels/pointwise/tile.h"

namespace forethought::kernels {

TileFn find_arith_tile_simd(Isa isa, PointwiseOp op);  // f32
TileFn find_math_tile_simd(Isa isa, PointwiseOp op);   // f32
TileFn find_equal_tile_simd(Isa isa, DType work);
TileFn find_where_tile_simd(Isa isa, int width);
TileFn find_cast_tile_simd(Isa isa, DType from, DType to);
TileFn find_quantize_tile_simd(Isa isa, DType quotient, DType to);
TileFn find_dequantize_tile_simd(Isa isa, DType from);

}  // namespace forethought::kernels
