// The vocabulary of functors.inc for one number: libm for floats, wrap-around without traps for integers.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace forethought::kernels::plain {

template <typename T>
struct Lane {
  using V = T;
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  // Arithmetic in at least 32 unsigned bits, so that it wraps and no promotion to int can overflow.
  using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<std::conditional_t<kFloat, int64_t, T>>>;

  static V set(double c) { return static_cast<T>(c); }
  static V add(V a, V b) {
    if constexpr (kFloat)
      return a + b;
    else
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
  static V sub(V a, V b) {
    if constexpr (kFloat)
      return a - b;
    else
      return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  }
  static V mul(V a, V b) {
    if constexpr (kFloat)
      return a * b;
    else
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
  static V div(V a, V b) {
    if constexpr (kFloat) {
      return a / b;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return neg(a);
      return static_cast<T>(a / b);
    }
  }
  static V neg(V a) {
    if constexpr (kFloat)
      return -a;
    else
      return static_cast<T>(U{0} - static_cast<U>(a));
  }
  static V abs(V a) {
    if constexpr (kFloat)
      return std::fabs(a);
    else if constexpr (std::is_signed_v<T>)
      return a < 0 ? neg(a) : a;
    else
      return a;
  }
  static V max(V a, V b) { return a != a || a > b ? a : b; }
  static V min(V a, V b) { return a != a || a < b ? a : b; }
  static V clamp01(V a) { return min(max(a, V{0}), V{1}); }
  static V if_negative(V test, V yes, V no) { return test < 0 ? yes : no; }

  static V ceil(V a) { return std::ceil(a); }
  static V floor(V a) { return std::floor(a); }
  static V sqrt(V a) { return std::sqrt(a); }
  static V exp(V a) { return std::exp(a); }
  static V expm1_negative(V a) { return std::expm1(a); }
  static V log(V a) { return std::log(a); }
  static V log1p_unit(V a) { return std::log1p(a); }
  static V tanh(V a) { return std::tanh(a); }
  static V erf(V a) { return std::erf(a); }
};

}  // namespace forethought::kernels::plain
