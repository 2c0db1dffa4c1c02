#include "passes/engine/constants.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace forethought::passes {
namespace {

template <typename T>
T read(const Tensor& t, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const std::byte*>(t.data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}

}  // namespace

std::optional<double> number_at(const Tensor& t, int64_t i) {
  if (i < 0 || i >= t.elements()) return std::nullopt;
  std::optional<double> r;
  dispatch(t.dtype, NumberTypes{}, [&]<typename T>() {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      r = static_cast<double>(static_cast<float>(read<T>(t, i)));
    else
      r = static_cast<double>(read<T>(t, i));
  });
  if (t.dtype == DType::kBool) r = read<uint8_t>(t, i) != 0;
  return r;
}

std::optional<double> only_number(const Tensor& t) { return t.elements() == 1 ? number_at(t, 0) : std::nullopt; }

bool is_number(const Tensor& t, double value) {
  const auto v = only_number(t);
  if (!v) return false;
  double precision = 0;
  if (t.dtype == DType::kFloat) precision = 1e-6;
  if (t.dtype == DType::kDouble) precision = 1e-7;  // exporters write f32 constants as f64
  if (t.dtype == DType::kFloat16) precision = 1e-3;
  if (t.dtype == DType::kBFloat16) precision = 8e-3;
  return std::abs(*v - value) <= precision * std::abs(value);
}

bool all_equal(const Tensor& t, double value) {
  const int64_t n = t.elements();
  if (n == 0 || n > 65536) return false;
  for (int64_t i = 0; i < n; ++i) {
    const auto v = number_at(t, i);
    if (!v || std::bit_cast<uint64_t>(*v) != std::bit_cast<uint64_t>(value)) return false;
  }
  return true;
}

std::vector<double> f32_elements(const Tensor& t) {
  std::vector<double> v(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = read<float>(t, static_cast<int64_t>(i));
  return v;
}

std::optional<std::vector<int64_t>> int_elements(const Tensor& t) {
  if (t.dtype != DType::kInt64 && t.dtype != DType::kInt32) return std::nullopt;
  std::vector<int64_t> v(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = t.dtype == DType::kInt64 ? read<int64_t>(t, static_cast<int64_t>(i))
                                    : read<int32_t>(t, static_cast<int64_t>(i));
  return v;
}

Tensor scalar(DType dtype, double value) {
  Tensor t = make_tensor(dtype, {}).value();
  dispatch(dtype, NumberTypes{}, [&]<typename T>() {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
      *t.as<T>() = T(static_cast<float>(value));
    else
      *t.as<T>() = static_cast<T>(value);
  });
  return t;
}

}  // namespace forethought::passes
