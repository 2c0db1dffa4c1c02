// SIMD tiles of the f32 operators that need no transcendental function.
#include "kernels/pointwise/tile_tiers.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/simd_arith.cc"
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
// clang-format on

template <int kArity, bool kHere, template <class> class Op>
TileFn pick() {
  if constexpr (kHere)
    return simd_tile<kArity, Op<BasicLane>>();
  else
    return nullptr;
}
}  // namespace

TileFn arith_tile(PointwiseOp op) {
  enum { arith = 1, math = 0 };
  switch (op) {
#define OP(name, arity, ints, simd) \
  case PointwiseOp::name:           \
    return pick<arity, simd == arith, name>();
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
TileFn find_arith_tile_simd(Isa isa, PointwiseOp op) { return FT_SIMD(isa, arith_tile)(op); }
}  // namespace forethought::kernels
#endif
