// ONNX TopK: the k best elements of each line, best first.
#include <algorithm>

#include "base/status.h"
#include "kernels/select/order.h"
#include "kernels/select/select.h"

namespace forethought::kernels {
namespace {

bool better(const Ranked& a, const Ranked& b) { return a.key != b.key ? a.key > b.key : a.index < b.index; }

template <typename T>
void rank_line(const T* in, int64_t stride, bool largest, std::span<Ranked> room) {
  for (size_t i = 0; i < room.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const uint64_t key = order_key(in[at * stride]);
    room[i] = {largest ? key : ~key, at};
  }
}

template <typename T>
void lines(bool largest, const T* in, int64_t n, int64_t inner, int64_t k, T* values, int64_t* indices, int64_t begin,
           int64_t end, std::span<Ranked> room) {
  for (int64_t line = begin; line < end; ++line) {
    const int64_t outer = line / inner, column = line % inner;
    const T* const from = in + outer * n * inner + column;
    const int64_t to = outer * k * inner + column;
    rank_line(from, inner, largest, room);
    if (k < n) std::nth_element(room.begin(), room.begin() + k, room.end(), better);
    std::sort(room.begin(), room.begin() + k, better);
    for (int64_t i = 0; i < k; ++i) {
      values[to + i * inner] = from[room[static_cast<size_t>(i)].index * inner];
      indices[to + i * inner] = room[static_cast<size_t>(i)].index;
    }
  }
}

}  // namespace

void top_k(DType dtype, bool largest, const void* in, int64_t n, int64_t inner, int64_t k, void* values,
           int64_t* indices, int64_t begin, int64_t end, std::span<Ranked> room) {
  if (k == 0) return;
  room = room.first(static_cast<size_t>(n));
  FT_CHECK(dispatch(dtype, NumberTypes{}, [&]<typename T>() {
    lines(largest, static_cast<const T*>(in), n, inner, k, static_cast<T*>(values), indices, begin, end, room);
  }));
}

}  // namespace forethought::kernels
