#include "kernels/movement/strided_copy.h"

#include <algorithm>

#include "kernels/movement/transpose_2d.h"

namespace forethought::kernels {
namespace {

constexpr int64_t kBlockBytes = 64 * 1024;  // work worth handing to another thread
constexpr int64_t kTileCols = 64;           // columns of a tile unit: output rows open at the same time
constexpr int64_t kTileRows = 1024;

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

using Steps = absl::InlinedVector<int64_t, 8>;

Steps row_major(std::span<const int64_t> dims) {
  Steps s(dims.size());
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0; step *= dims[d]) s[d] = step;
  return s;
}

}  // namespace

StridedCopy::StridedCopy(Element element, std::span<const int64_t> extents, std::span<const int64_t> in_steps,
                         std::span<const int64_t> out_steps)
    : element_(element) {
  Loops loops;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 0) return;
    if (extents[d] == 1) continue;
    const Loop l{extents[d], in_steps[d], out_steps[d]};
    if (!loops.empty()) {
      Loop& o = loops.back();
      if (o.in_step == l.in_step * l.extent && o.out_step == l.out_step * l.extent) {
        o = {o.extent * l.extent, l.in_step, l.out_step};
        continue;
      }
    }
    loops.push_back(l);
  }
  widen(loops);
  cut(loops);
}

// Takes an innermost run of 2 to 16 bytes for one wider element, so that what moves is as wide as can be.
void StridedCopy::widen(Loops& loops) {
  if (element_ == Element::string || loops.size() < 2) return;
  const Loop last = loops.back();
  const int64_t bytes = last.extent * static_cast<int64_t>(element_);
  if (last.in_step != 1 || last.out_step != 1 || bytes > 16 || (bytes & (bytes - 1)) != 0) return;
  for (size_t i = 0; i + 1 < loops.size(); ++i)
    if (loops[i].in_step % last.extent != 0 || loops[i].out_step % last.extent != 0) return;
  loops.pop_back();
  for (Loop& l : loops) l.in_step /= last.extent, l.out_step /= last.extent;
  element_ = static_cast<Element>(bytes);
}

// Chooses the innermost form and cuts the work into units.
void StridedCopy::cut(Loops& loops) {
  const int64_t pitch = element_pitch(element_);
  if (!loops.empty()) {
    inner_ = loops.back();
    loops.pop_back();
  }
  size_t mid = loops.size();  // index of the loop taken as mid_
  if (inner_.in_step == 1 && inner_.out_step == 1) {
    form_ = Form::rows;
  } else if (inner_.in_step == 0 && inner_.out_step == 1) {
    form_ = Form::fill;
  } else {
    form_ = Form::strided;
    if (inner_.out_step == 1 && element_ != Element::string)
      for (size_t i = 0; i < loops.size(); ++i)
        if (loops[i].in_step == 1) form_ = Form::tiles, mid = i;
  }
  if (mid == loops.size() && mid > 0) --mid;
  if (mid < loops.size()) {
    mid_ = loops[mid];
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(mid));
  }
  outer_ = loops;
  if (form_ == Form::tiles) {
    inner_chunk_ = std::min(inner_.extent, kTileRows);
    mid_chunk_ = std::min(mid_.extent, kTileCols);
  } else {
    inner_chunk_ = std::min(inner_.extent, std::max<int64_t>(1, kBlockBytes / pitch));
    mid_chunk_ = std::clamp<int64_t>(kBlockBytes / pitch / inner_chunk_, 1, mid_.extent);
    if (inner_chunk_ < inner_.extent) mid_chunk_ = 1;
  }
  inner_chunks_ = ceil_div(inner_.extent, inner_chunk_);
  mid_chunks_ = ceil_div(mid_.extent, mid_chunk_);
  units_ = inner_chunks_ * mid_chunks_;
  for (const Loop& l : outer_) units_ *= l.extent;
  grain_ = std::max<int64_t>(1, kBlockBytes / (inner_chunk_ * mid_chunk_ * pitch));
}

template <typename T>
void StridedCopy::run_inner(Isa isa, const void* in, void* out, int64_t row, int64_t rows, int64_t chunk) const {
  const int64_t begin = chunk * inner_chunk_;
  const int64_t n = std::min(inner_chunk_, inner_.extent - begin);
  const int64_t in0 = begin * inner_.in_step + row * mid_.in_step, out0 = begin * inner_.out_step + row * mid_.out_step;
  if constexpr (!std::is_same_v<T, std::string>) {
    if (form_ == Form::tiles)
      return transpose_2d(isa, element_, advance(in, element_, in0), inner_.in_step, advance(out, element_, out0),
                          mid_.out_step, n, rows);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = in0 + r * mid_.in_step, o = out0 + r * mid_.out_step;
    switch (form_) {
      case Form::rows:
        copy_run<T>(in, i, out, o, n);
        break;
      case Form::fill:
        fill_run<T>(load_element<T>(in, i), out, o, n);
        break;
      default:
        for (int64_t k = 0; k < n; ++k) copy_element<T>(in, i + k * inner_.in_step, out, o + k * inner_.out_step);
    }
  }
}

void StridedCopy::run(Isa isa, const void* in, void* out, int64_t begin, int64_t end) const {
  if (begin >= end) return;
  // Counters of the outer loops at unit `begin`; the chunks of inner_ and mid_ run fastest.
  absl::InlinedVector<int64_t, 8> count(outer_.size());
  int64_t rest = begin;
  int64_t chunk = rest % inner_chunks_;
  rest /= inner_chunks_;
  int64_t mid = rest % mid_chunks_;
  rest /= mid_chunks_;
  int64_t in_at = 0, out_at = 0;
  for (size_t l = outer_.size(); l-- > 0; rest /= outer_[l].extent) {
    count[l] = rest % outer_[l].extent;
    in_at += count[l] * outer_[l].in_step;
    out_at += count[l] * outer_[l].out_step;
  }
  with_element(element_, [&]<typename T>() {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = mid * mid_chunk_;
      run_inner<T>(isa, advance(in, element_, in_at), advance(out, element_, out_at), row,
                   std::min(mid_chunk_, mid_.extent - row), chunk);
      if (++chunk < inner_chunks_) continue;
      chunk = 0;
      if (++mid < mid_chunks_) continue;
      mid = 0;
      for (size_t l = outer_.size(); l-- > 0;) {
        in_at += outer_[l].in_step;
        out_at += outer_[l].out_step;
        if (++count[l] < outer_[l].extent) break;
        in_at -= outer_[l].extent * outer_[l].in_step;
        out_at -= outer_[l].extent * outer_[l].out_step;
        count[l] = 0;
      }
    }
  });
}

const char* StridedCopy::form() const {
  constexpr const char* names[] = {"rows", "fill", "strided", "tiles"};
  return names[static_cast<int>(form_)];
}

StridedCopy transpose_copy(Element element, std::span<const int64_t> dims, std::span<const int64_t> perm) {
  const Steps in = row_major(dims);
  Steps extents, in_steps;
  for (int64_t p : perm) {
    extents.push_back(dims[p]);
    in_steps.push_back(in[p]);
  }
  return {element, extents, in_steps, row_major(extents)};
}

StridedCopy tile_copy(Element element, std::span<const int64_t> dims, std::span<const int64_t> repeats) {
  const Steps in = row_major(dims);
  Steps extents, in_steps;
  for (size_t d = 0; d < dims.size(); ++d) {
    extents.insert(extents.end(), {repeats[d], dims[d]});
    in_steps.insert(in_steps.end(), {0, in[d]});
  }
  return {element, extents, in_steps, row_major(extents)};
}

StridedCopy window_copy(Element element, int64_t outer, int64_t piece, int64_t in_pitch, int64_t out_pitch) {
  const int64_t extents[] = {outer, piece}, in_steps[] = {in_pitch, 1}, out_steps[] = {out_pitch, 1};
  return {element, extents, in_steps, out_steps};
}

}  // namespace forethought::kernels
