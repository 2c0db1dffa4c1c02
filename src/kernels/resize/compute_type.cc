#include "kernels/resize/compute_type.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/convert/half_tile.h"

namespace forethought::kernels {
namespace {

template <typename T, typename C>
T rounded(C v) {
  constexpr C lowest = static_cast<C>(std::numeric_limits<T>::lowest());
  constexpr C beyond = static_cast<C>(std::numeric_limits<T>::max() / 2 + 1) * 2;  // max + 1, exact in C
  const C r = std::nearbyint(v);
  if (!(r >= lowest)) return std::isnan(r) ? T{0} : std::numeric_limits<T>::lowest();
  return r >= beyond ? std::numeric_limits<T>::max() : static_cast<T>(r);
}

template <typename T>
constexpr bool is_half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

}  // namespace

template <typename C>
const C* load_as(Isa isa, DType dtype, const void* in, int64_t first, int64_t n, C* tile) {
  if (dtype == dtype_of<C>) return static_cast<const C*>(in) + first;
  dispatch(dtype, NumberTypes{}, [&]<typename T>() {
    const T* p = static_cast<const T*>(in) + first;
    if constexpr (is_half<T> && std::is_same_v<C, float>) {
      widen(isa, p, tile, n);
    } else if constexpr (!is_half<T>) {
      for (int64_t i = 0; i < n; ++i) tile[i] = static_cast<C>(p[i]);
    }
  });
  return tile;
}

template <typename C>
void store_as(Isa isa, DType dtype, const C* values, int64_t n, void* out, int64_t first) {
  dispatch(dtype, NumberTypes{}, [&]<typename T>() {
    T* p = static_cast<T*>(out) + first;
    if constexpr (std::is_same_v<T, C>) {
      if (p != values && n > 0) std::memcpy(p, values, static_cast<size_t>(n) * sizeof(T));
    } else if constexpr (is_half<T>) {
      if constexpr (std::is_same_v<C, float>) narrow(isa, values, p, n);
    } else if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < n; ++i) p[i] = rounded<T>(values[i]);
    }
  });
}

template const float* load_as(Isa, DType, const void*, int64_t, int64_t, float*);
template const double* load_as(Isa, DType, const void*, int64_t, int64_t, double*);
template void store_as(Isa, DType, const float*, int64_t, void*, int64_t);
template void store_as(Isa, DType, const double*, int64_t, void*, int64_t);

}  // namespace forethought::kernels
