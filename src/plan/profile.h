// Bytes live at each step, under additions over ranges of steps, with their maximum: a segment tree.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace forethought::planning {

class Profile {
 public:
  explicit Profile(size_t steps) : n_(std::bit_ceil(std::max<size_t>(steps, 1))), max_(2 * n_), add_(n_) {}

  // Adds `bytes` at each step of first..last. O(log steps).
  void add(int32_t first, int32_t last, int64_t bytes) {
    if (first > last || bytes == 0) return;
    size_t l = first + n_, r = last + 1 + n_;
    const size_t l0 = l, r0 = r - 1;
    for (; l < r; l >>= 1, r >>= 1) {
      if (l & 1) apply(l++, bytes);
      if (r & 1) apply(--r, bytes);
    }
    rebuild(l0);
    rebuild(r0);
  }
  int64_t max() const { return max_[1]; }

 private:
  void apply(size_t node, int64_t bytes) {
    max_[node] += bytes;
    if (node < n_) add_[node] += bytes;
  }
  void rebuild(size_t node) {
    for (node >>= 1; node >= 1; node >>= 1) max_[node] = std::max(max_[2 * node], max_[2 * node + 1]) + add_[node];
  }

  size_t n_;
  std::vector<int64_t> max_, add_;
};

}  // namespace forethought::planning
