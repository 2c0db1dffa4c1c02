// ONNX NonMaxSuppression of one class: the best boxes that do not overlap a better one too much.
#include <algorithm>

#include "kernels/select/order.h"
#include "kernels/select/select.h"

namespace forethought::kernels {
namespace {

struct Box {
  float left, top, right, bottom;
  float area() const { return (right - left) * (bottom - top); }
};

Box box_of(const float* b, bool centered) {
  if (centered) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  // Any two opposite corners, as [y, x, y, x].
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
}

bool overlap(const Box& a, const Box& b, float most) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0) || !(height > 0)) return false;
  const float common = width * height, both = a.area() + b.area() - common;
  return both > 0 && common / both > most;
}

}  // namespace

int64_t suppress(const Suppression& s, const float* boxes, const float* scores, int64_t n, std::span<Ranked> room,
                 int64_t* selected) {
  size_t candidates = 0;
  for (int64_t i = 0; i < n; ++i)
    if (!s.has_threshold || scores[i] > s.threshold) room[candidates++] = {~order_key(scores[i]), i};
  std::sort(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(candidates),
            [](const Ranked& a, const Ranked& b) { return a.key != b.key ? a.key < b.key : a.index < b.index; });
  int64_t count = 0;
  for (size_t c = 0; c < candidates && count < s.most; ++c) {
    const Box box = box_of(boxes + room[c].index * 4, s.centered);
    const bool hidden = std::any_of(selected, selected + count, [&](int64_t better) {
      return overlap(box_of(boxes + better * 4, s.centered), box, s.overlap);
    });
    if (!hidden) selected[count++] = room[c].index;
  }
  return count;
}

}  // namespace forethought::kernels
