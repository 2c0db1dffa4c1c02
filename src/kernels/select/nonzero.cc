// ONNX NonZero: the coordinates of the elements that are not zero, in row-major order.
#include <string>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "kernels/select/select.h"

namespace forethought::kernels {
namespace {

template <typename T>
bool nonzero(const T& v) {
  if constexpr (std::is_same_v<T, std::string>)
    return !v.empty();
  else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return (v.bits & 0x7fffu) != 0;
  else
    return v != T{0};
}

// Integers go by width and bools as bytes.
using Tested = Types<float, double, Float16, BFloat16, uint8_t, uint16_t, uint32_t, uint64_t, std::string>;
DType tested(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kInt8:
      return DType::kUint8;
    case DType::kInt16:
      return DType::kUint16;
    case DType::kInt32:
      return DType::kUint32;
    case DType::kInt64:
      return DType::kUint64;
    default:
      return dtype;
  }
}

template <typename T>
void write(const T* p, std::span<const int64_t> dims, int64_t begin, int64_t end, int64_t* out, int64_t columns,
           int64_t column) {
  const size_t rank = dims.size();
  absl::InlinedVector<int64_t, 8> at(rank);
  int64_t rest = begin;
  for (size_t a = rank; a-- > 0;) {
    at[a] = rest % dims[a];
    rest /= dims[a];
  }
  for (int64_t i = begin; i < end; ++i) {
    if (nonzero(p[i])) {
      for (size_t a = 0; a < rank; ++a) out[static_cast<int64_t>(a) * columns + column] = at[a];
      ++column;
    }
    for (size_t a = rank; a-- > 0;) {
      if (++at[a] < dims[a]) break;
      at[a] = 0;
    }
  }
}

}  // namespace

int64_t count_nonzero(DType dtype, const void* in, int64_t begin, int64_t end) {
  int64_t count = 0;
  FT_CHECK(dispatch(tested(dtype), Tested{}, [&]<typename T>() {
    const T* p = static_cast<const T*>(in);
    for (int64_t i = begin; i < end; ++i) count += nonzero(p[i]);
  }));
  return count;
}

void write_nonzero(DType dtype, const void* in, std::span<const int64_t> dims, int64_t begin, int64_t end, int64_t* out,
                   int64_t columns, int64_t column) {
  if (begin == end) return;
  FT_CHECK(dispatch(tested(dtype), Tested{},
                    [&]<typename T>() { write(static_cast<const T*>(in), dims, begin, end, out, columns, column); }));
}

}  // namespace forethought::kernels
