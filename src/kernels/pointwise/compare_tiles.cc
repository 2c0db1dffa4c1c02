// Plain tile functions of Less, LessOrEqual, And, Or and Xor.
#include "kernels/pointwise/tile.h"

namespace forethought::kernels {
namespace {

// Each form is a loop of its own, so that compilers see plain strides.
template <typename T, typename F>
void pairs(const TileArg* args, void* out, int64_t n, F&& f) {
  if (n <= 0) return;
  const auto *a = static_cast<const T*>(args[0].data), *b = static_cast<const T*>(args[1].data);
  auto* o = static_cast<uint8_t*>(out);
  const T a0 = *a, b0 = *b;  // before anything is written: the output may take the place of an operand
  if (args[0].scalar && args[1].scalar) {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a0, b0);
  } else if (args[0].scalar) {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a0, b[i]);
  } else if (args[1].scalar) {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b0);
  } else {
    for (int64_t i = 0; i < n; ++i) o[i] = f(a[i], b[i]);
  }
}

template <typename T>
void less_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<T>(args, out, n, [](T a, T b) { return static_cast<uint8_t>(a < b); });
}
template <typename T>
void less_or_equal_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<T>(args, out, n, [](T a, T b) { return static_cast<uint8_t>(a <= b); });
}

void and_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<uint8_t>(args, out, n, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) & (b != 0)); });
}
void or_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<uint8_t>(args, out, n, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) | (b != 0)); });
}
void xor_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<uint8_t>(args, out, n, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) != (b != 0)); });
}

}  // namespace

TileFn find_less_tile(DType work, bool or_equal) {
  TileFn fn = nullptr;
  using WorkTypes = Types<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
  dispatch(work, WorkTypes{}, [&]<typename T>() { fn = or_equal ? &less_or_equal_tile<T> : &less_tile<T>; });
  return fn;
}

TileFn find_logic_tile(LogicOp op) {
  switch (op) {
    case LogicOp::And:
      return &and_tile;
    case LogicOp::Or:
      return &or_tile;
    case LogicOp::Xor:
      return &xor_tile;
  }
  return nullptr;
}

}  // namespace forethought::kernels
