#include "kernels/movement/gather.h"

#include <algorithm>

namespace forethought::kernels {

int64_t GatherShape::grain(Element e) const {
  return std::max<int64_t>(1, 64 * 1024 / std::max<int64_t>(1, inner * element_pitch(e)));
}

template <typename I>
int64_t first_bad_index(const void* indices, int64_t count, int64_t extent) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t v = load_element<I>(indices, i);
    if (v < -extent || v >= extent) return i;
  }
  return -1;
}

namespace {

template <typename T, typename I>
void gather_slices(const GatherShape& s, const void* in, const void* indices, void* out, int64_t begin, int64_t end) {
  int64_t o = begin / s.count, i = begin % s.count;
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t index = load_element<I>(indices, i);
    if (index < 0) index += s.extent;
    const int64_t from = (o * s.extent + index) * s.inner;
    if (s.inner == 1) {
      copy_element<T>(in, from, out, unit);
    } else {
      copy_run<T>(in, from, out, unit * s.inner, s.inner);
    }
    if (++i == s.count) i = 0, ++o;
  }
}

}  // namespace

template <typename I>
void gather(Element element, const GatherShape& shape, const void* in, const void* indices, void* out, int64_t begin,
            int64_t end) {
  if (begin >= end) return;
  with_element(element, [&]<typename T>() { gather_slices<T, I>(shape, in, indices, out, begin, end); });
}

template int64_t first_bad_index<int32_t>(const void*, int64_t, int64_t);
template int64_t first_bad_index<int64_t>(const void*, int64_t, int64_t);
template void gather<int32_t>(Element, const GatherShape&, const void*, const void*, void*, int64_t, int64_t);
template void gather<int64_t>(Element, const GatherShape&, const void*, const void*, void*, int64_t, int64_t);

}  // namespace forethought::kernels
