#include "kernels/movement/gather_points.h"

#include "absl/container/inlined_vector.h"

namespace forethought::kernels {

int64_t first_bad_point(const PointShape& s, const int64_t* indices) {
  const auto depth = static_cast<int64_t>(s.dims.size());
  for (int64_t i = 0; i < s.rows * depth; ++i) {
    const int64_t dim = s.dims[static_cast<size_t>(i % depth)];
    if (indices[i] < -dim || indices[i] >= dim) return i;
  }
  return -1;
}

void gather_points(Element element, const PointShape& s, const void* in, const int64_t* indices, void* out,
                   int64_t begin, int64_t end) {
  const auto depth = static_cast<int64_t>(s.dims.size());
  with_element(element, [&]<typename T>() {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = 0;
      for (int64_t d = 0; d < depth; ++d) {
        const int64_t dim = s.dims[static_cast<size_t>(d)], i = indices[row * depth + d];
        at = at * dim + (i < 0 ? i + dim : i);
      }
      copy_run<T>(in, row / s.rows_per_batch * s.batch_pitch + at * s.inner, out, row * s.inner, s.inner);
    }
  });
}

template <typename I>
void gather_elements(Element element, const ElementsShape& s, const void* in, const I* indices, void* out,
                     int64_t begin, int64_t end) {
  const size_t rank = s.indices.size();
  absl::InlinedVector<int64_t, 8> at(rank), pitch(rank);  // place in the indices; of the data
  int64_t rest = begin, step = 1;
  for (size_t d = rank; d-- > 0;) {
    at[d] = rest % s.indices[d];
    rest /= s.indices[d];
    pitch[d] = step;
    step *= s.data[d];
  }
  const auto axis = static_cast<size_t>(s.axis);
  with_element(element, [&]<typename T>() {
    for (int64_t e = begin; e < end; ++e) {
      const auto i = static_cast<int64_t>(indices[e]);
      int64_t from = (i < 0 ? i + s.data[axis] : i) * pitch[axis];
      for (size_t d = 0; d < rank; ++d)
        if (d != axis) from += at[d] * pitch[d];
      copy_element<T>(in, from, out, e);
      for (size_t d = rank; d-- > 0;) {
        if (++at[d] < s.indices[d]) break;
        at[d] = 0;
      }
    }
  });
}
template void gather_elements<int32_t>(Element, const ElementsShape&, const void*, const int32_t*, void*, int64_t,
                                       int64_t);
template void gather_elements<int64_t>(Element, const ElementsShape&, const void*, const int64_t*, void*, int64_t,
                                       int64_t);

}  // namespace forethought::kernels
