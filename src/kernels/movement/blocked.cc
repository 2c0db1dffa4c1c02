#include "kernels/movement/blocked.h"

#include <algorithm>
#include <cstring>

#include "kernels/movement/transpose_2d.h"

namespace forethought::kernels {
namespace {

constexpr int64_t kPiece = 1024;  // spatial positions of a unit

int64_t pieces(const BlockedShape& s) { return (s.spatial + kPiece - 1) / kPiece; }

// Where a unit lies: offsets of its first element in both forms, its channels and positions.
struct Unit {
  int64_t plain, blocked, channels, positions;
};
Unit locate(const BlockedShape& s, int64_t unit) {
  const int64_t p = unit % pieces(s), nb = unit / pieces(s);
  const int64_t b = nb % s.channel_blocks(), n = nb / s.channel_blocks();
  const int64_t c = b * s.block, at = p * kPiece;
  return {(n * s.channels + c) * s.spatial + at, (nb * s.spatial + at) * s.block, std::min(s.block, s.channels - c),
          std::min(kPiece, s.spatial - at)};
}

}  // namespace

int64_t BlockedShape::units() const { return batch * channel_blocks() * pieces(*this); }
int64_t BlockedShape::grain() const {
  return std::max<int64_t>(1, 16 * 1024 / std::max<int64_t>(1, std::min(kPiece, spatial) * block));
}

void to_blocked(Isa isa, const BlockedShape& s, const float* plain, float* blocked, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit) {
    const Unit u = locate(s, unit);
    float* out = blocked + u.blocked;
    if (u.channels < s.block) std::memset(out, 0, static_cast<size_t>(u.positions * s.block) * sizeof(float));
    transpose_2d(isa, Element::w4, plain + u.plain, s.spatial, out, s.block, u.channels, u.positions);
  }
}

void from_blocked(Isa isa, const BlockedShape& s, const float* blocked, float* plain, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit) {
    const Unit u = locate(s, unit);
    transpose_2d(isa, Element::w4, blocked + u.blocked, s.block, plain + u.plain, s.spatial, u.positions, u.channels);
  }
}

}  // namespace forethought::kernels
