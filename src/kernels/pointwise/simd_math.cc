// SIMD tiles of the f32 operators that need exp, log, tanh or erf.
#include <limits>

#include "kernels/pointwise/tile_tiers.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/simd_math.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace forethought::kernels {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
namespace {
// Each of these builds on those before it.
// clang-format off
#include "kernels/pointwise/functors.inc"
#include "kernels/pointwise/simd_lane.inc"
#include "kernels/pointwise/simd_functions.inc"
// clang-format on

struct MathLane : BasicLane {
  static V exp(V a) { return exp_f32(a); }
  static V expm1_negative(V a) { return expm1_negative_f32(a); }
  static V log(V a) { return log_f32(a); }
  static V log1p_unit(V a) { return log1p_unit_f32(a); }
  static V tanh(V a) { return tanh_f32(a); }
  static V erf(V a) { return erf_f32(a); }
};

template <int kArity, bool kHere, template <class> class Op>
TileFn pick() {
  if constexpr (kHere)
    return simd_tile<kArity, Op<MathLane>>();
  else
    return nullptr;
}
}  // namespace

TileFn math_tile(PointwiseOp op) {
  enum { arith = 0, math = 1 };
  switch (op) {
#define OP(name, arity, ints, simd) \
  case PointwiseOp::name:           \
    return pick<arity, simd == math, name>();
#include "kernels/pointwise/ops.inc"
#undef OP
  }
  return nullptr;
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace forethought::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forethought::kernels {
TileFn find_math_tile_simd(Isa isa, PointwiseOp op) { return FT_SIMD(isa, math_tile)(op); }
}  // namespace forethought::kernels
#endif
