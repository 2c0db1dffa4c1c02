// ONNX Unique and Compress: slices that differ, and those that a list picks.
#include <algorithm>
#include <string>

#include "base/status.h"
#include "kernels/select/order.h"
#include "kernels/select/select.h"

namespace forethought::kernels {
namespace {

// The slices of a tensor seen as [outer, n, inner].
struct Slices {
  const void* in;
  int64_t outer, n, inner;
};

template <typename T>
int compare_elements(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::string>) {
    return a.compare(b);
  } else {
    const uint64_t x = order_key(a), y = order_key(b);
    return x < y ? -1 : x > y;
  }
}

// Of slices i and j, element by element.
template <typename T>
int compare_slices(const Slices& s, int64_t i, int64_t j) {
  const T* const in = static_cast<const T*>(s.in);
  for (int64_t o = 0; o < s.outer; ++o)
    for (int64_t k = 0; k < s.inner; ++k)
      if (const int c = compare_elements(in[(o * s.n + i) * s.inner + k], in[(o * s.n + j) * s.inner + k])) return c;
  return 0;
}

// Sorts [0, n) so that equal elements are neighbours and, of these, lower indices first; one sort for all types.
template <typename Compare>
void sort_places(std::span<Ranked> places, const Compare& compare) {
  std::sort(places.begin(), places.end(), [&](const Ranked& a, const Ranked& b) {
    const int c = compare(a, b);
    return c != 0 ? c < 0 : a.index < b.index;
  });
}

// Replaces the sorted places by {count, first index} of each run of equal ones, at the front; returns how many.
template <typename Compare>
int64_t gather_runs(std::span<Ranked> places, int64_t* place, const Compare& compare) {
  int64_t runs = 0;
  Ranked before{};
  for (size_t i = 0; i < places.size(); ++i) {
    const Ranked now = places[i];
    if (i == 0 || compare(before, now) != 0) places[static_cast<size_t>(runs++)] = {0, now.index};
    ++places[static_cast<size_t>(runs - 1)].key;
    place[now.index] = runs - 1;
    before = now;
  }
  return runs;
}

template <typename Compare>
int64_t find(std::span<Ranked> places, int64_t* place, const Compare& compare) {
  sort_places(places, compare);
  return gather_runs(places, place, compare);
}

template <typename T>
void rank(const T* in, std::span<Ranked> places) {
  for (size_t i = 0; i < places.size(); ++i) places[i] = {order_key(in[i]), static_cast<int64_t>(i)};
}

}  // namespace

int64_t find_unique(DType dtype, const void* in, int64_t outer, int64_t n, int64_t inner, bool sorted,
                    std::span<Ranked> found, int64_t* place, int64_t* room) {
  found = found.first(static_cast<size_t>(n));
  if (n == 0) return 0;
  const DType seen = dtype == DType::kBool ? DType::kUint8 : dtype;
  const Slices slices{in, outer, n, inner};
  int64_t count = 0;
  if (seen != DType::kString && outer * inner == 1) {
    FT_CHECK(dispatch(seen, NumberTypes{}, [&]<typename T>() { rank(static_cast<const T*>(in), found); }));
    count = find(found, place, [](const Ranked& a, const Ranked& b) { return a.key < b.key ? -1 : a.key > b.key; });
  } else {
    int (*compare)(const Slices&, int64_t, int64_t) = &compare_slices<std::string>;
    if (seen != DType::kString)
      FT_CHECK(dispatch(seen, NumberTypes{}, [&]<typename T>() { compare = &compare_slices<T>; }));
    for (size_t i = 0; i < found.size(); ++i) found[i].index = static_cast<int64_t>(i);
    count = find(found, place, [&](const Ranked& a, const Ranked& b) { return compare(slices, a.index, b.index); });
  }
  if (sorted) return count;
  found = found.first(static_cast<size_t>(count));
  std::ranges::sort(found, {}, &Ranked::index);
  for (int64_t g = 0; g < count; ++g) room[place[found[static_cast<size_t>(g)].index]] = g;
  for (int64_t i = 0; i < n; ++i) place[i] = room[place[i]];
  return count;
}

void take_picked(Element element, const void* in, int64_t n, int64_t inner, std::span<const int64_t> picked, void* out,
                 int64_t begin, int64_t end) {
  const auto count = static_cast<int64_t>(picked.size());
  with_element(element, [&]<typename T>() {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = row / count * n + picked[static_cast<size_t>(row % count)];
      copy_run<T>(in, from * inner, out, row * inner, inner);
    }
  });
}

}  // namespace forethought::kernels
