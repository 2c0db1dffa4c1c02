// Plain tile functions of Less, LessOrEqual, And, Or and Xor.
#include "kernels/pointwise/pairs.h"

namespace forethought::kernels {
namespace {

template <typename T>
void less_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<T, uint8_t>(args, out, n, [](T a, T b) { return static_cast<uint8_t>(a < b); });
}
template <typename T>
void less_or_equal_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<T, uint8_t>(args, out, n, [](T a, T b) { return static_cast<uint8_t>(a <= b); });
}

void and_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<uint8_t, uint8_t>(args, out, n, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) & (b != 0)); });
}
void or_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<uint8_t, uint8_t>(args, out, n, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) | (b != 0)); });
}
void xor_tile(const TileArg* args, void* out, int64_t n, const TileParams&) {
  pairs<uint8_t, uint8_t>(args, out, n,
                          [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) != (b != 0)); });
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
