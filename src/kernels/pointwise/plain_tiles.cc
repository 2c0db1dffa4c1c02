// Plain tile functions of the arithmetic operators: the reference, and the only code for f64 and integers.
#include "kernels/pointwise/scalar_lane.h"
#include "kernels/pointwise/tile.h"
#include "kernels/pointwise/tile_tiers.h"

namespace forethought::kernels {
namespace plain {
namespace {
#include "kernels/pointwise/functors.inc"

template <typename T>
const T* data(const TileArg& arg) {
  return static_cast<const T*>(arg.data);
}

template <typename T, template <class> class Op>
void tile1(const TileArg* args, void* out, int64_t n, const TileParams& params) {
  const Op<Lane<T>> op(params);
  const T* a = data<T>(args[0]);
  T* o = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) o[i] = op(a[i]);
}

// An operand that stands for all elements is read once, before out is written.
template <typename T, template <class> class Op>
void tile2(const TileArg* args, void* out, int64_t n, const TileParams& params) {
  if (n <= 0) return;
  const Op<Lane<T>> op(params);
  const T *a = data<T>(args[0]), *b = data<T>(args[1]);
  T* o = static_cast<T*>(out);
  if (args[1].scalar) {
    const T s = *b;
    if (args[0].scalar) {
      const T v = op(*a, s);
      for (int64_t i = 0; i < n; ++i) o[i] = v;
    } else {
      for (int64_t i = 0; i < n; ++i) o[i] = op(a[i], s);
    }
  } else if (args[0].scalar) {
    const T s = *a;
    for (int64_t i = 0; i < n; ++i) o[i] = op(s, b[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) o[i] = op(a[i], b[i]);
  }
}

template <typename T, template <class> class Op>
void tile3(const TileArg* args, void* out, int64_t n, const TileParams& params) {
  if (n <= 0) return;
  const Op<Lane<T>> op(params);
  const T *a = data<T>(args[0]), *b = data<T>(args[1]), *c = data<T>(args[2]);
  T* o = static_cast<T*>(out);
  const int64_t sa = !args[0].scalar, sb = !args[1].scalar, sc = !args[2].scalar;
  const T a0 = *a, b0 = *b, c0 = *c;
  for (int64_t i = 0; i < n; ++i) o[i] = op(sa ? a[i] : a0, sb ? b[i] : b0, sc ? c[i] : c0);
}

enum class Ints { none, sign, all };

template <typename T, Ints kInts, template <class> class Op, int kArity>
constexpr TileFn pick() {
  if constexpr (std::is_floating_point_v<T> || kInts == Ints::all || (kInts == Ints::sign && std::is_signed_v<T>)) {
    if constexpr (kArity == 1)
      return &tile1<T, Op>;
    else if constexpr (kArity == 2)
      return &tile2<T, Op>;
    else
      return &tile3<T, Op>;
  } else {
    return nullptr;
  }
}

template <typename T>
TileFn table(PointwiseOp op) {
  switch (op) {
#define OP(name, arity, ints, simd) \
  case PointwiseOp::name:           \
    return pick<T, Ints::ints, name, arity>();
#include "kernels/pointwise/ops.inc"
#undef OP
  }
  return nullptr;
}
}  // namespace
}  // namespace plain

const char* name(PointwiseOp op) {
  static constexpr const char* kNames[] = {
#define OP(name, arity, ints, simd) #name,
#include "kernels/pointwise/ops.inc"
#undef OP
  };
  return kNames[static_cast<int>(op)];
}

int arity(PointwiseOp op) {
  static constexpr int8_t kArity[] = {
#define OP(name, arity, ints, simd) arity,
#include "kernels/pointwise/ops.inc"
#undef OP
  };
  return kArity[static_cast<int>(op)];
}

TileFn find_tile(Isa isa, PointwiseOp op, DType work) {
  if (work == DType::kFloat && isa != Isa::scalar) {
    if (TileFn fn = find_arith_tile_simd(isa, op)) return fn;
    if (TileFn fn = find_math_tile_simd(isa, op)) return fn;
  }
  TileFn fn = nullptr;
  using WorkTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
  dispatch(work, WorkTypes{}, [&]<typename T>() { fn = plain::table<T>(op); });
  return fn;
}

}  // namespace forethought::kernels
