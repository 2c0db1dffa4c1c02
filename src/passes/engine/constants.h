// Reading constants whatever their type and alignment, and making small ones.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "tensor/value.h"

namespace forethought::passes {

// Element i of a tensor of numbers or bools as a double; nullopt for other types or out of range.
std::optional<double> number_at(const Tensor& t, int64_t i);
// The only element.
std::optional<double> only_number(const Tensor& t);
// A tensor of one element that equals `value` to the precision of its type (exactly, for integers).
bool is_number(const Tensor& t, double value);
// Whether every element is `value`, bit for bit as a double (so 0 is not -0). False if there are none, or more than 64
// k.
bool all_equal(const Tensor& t, double value);
// Element i of an f32 tensor, at whatever address.
inline double f32_at(const Tensor& t, int64_t i) {
  float v;
  std::memcpy(&v, static_cast<const std::byte*>(t.data) + i * static_cast<int64_t>(sizeof v), sizeof v);
  return v;
}
// All elements of an f32 tensor as doubles; of i32 and i64 as int64.
std::vector<double> f32_elements(const Tensor& t);
std::optional<std::vector<int64_t>> int_elements(const Tensor& t);

// A rank-0 tensor of a number type.
Tensor scalar(DType dtype, double value);

}  // namespace forethought::passes
