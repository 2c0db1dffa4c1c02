// Bilinear Resize of the two innermost axes, f32: rows are stretched once each, then blended in pairs.
#include <algorithm>

#include "base/checked.h"
#include "kernels/resize/resize.h"
#include "kernels/resize/taps.h"

namespace forethought::kernels {
namespace {

class BilinearResize final : public Resize {
 public:
  BilinearResize(AxisTable y, AxisTable x, int64_t planes)
      : y_(std::move(y)),
        x_(std::move(x)),
        wy_(y_.weight.begin(), y_.weight.end()),
        wx_(x_.weight.begin(), x_.weight.end()),
        rows_(std::clamp<int64_t>(16 * 1024 / std::max<int64_t>(1, x_.out), 1, std::max<int64_t>(1, y_.out))),
        bands_((y_.out + rows_ - 1) / rows_),
        units_(x_.out == 0 ? 0 : planes * bands_) {}

  const char* name() const override { return "bilinear"; }
  int phases() const override { return 1; }
  int64_t units(int) const override { return units_; }
  int64_t grain(int) const override { return std::max<int64_t>(1, 16 * 1024 / (rows_ * std::max<int64_t>(1, x_.out))); }
  size_t worker_scratch_bytes() const override { return 2 * row_bytes(); }
  void run(Isa isa, int, const void* in, void* out, std::byte*, std::byte* worker_scratch, int64_t begin,
           int64_t end) const override {
    for (int64_t unit = begin; unit < end; ++unit)
      run_band(isa, static_cast<const float*>(in) + unit / bands_ * y_.in * x_.in,
               static_cast<float*>(out) + unit / bands_ * y_.out * x_.out, worker_scratch, unit % bands_ * rows_);
  }

 private:
  size_t row_bytes() const { return round_up(static_cast<size_t>(x_.out) * sizeof(float), 64); }
  void run_band(Isa isa, const float* in, float* out, std::byte* scratch, int64_t first) const;

  AxisTable y_, x_;
  std::vector<float> wy_, wx_;
  int64_t rows_, bands_;  // a unit is a band of rows of one plane
  int64_t units_;
};

void BilinearResize::run_band(Isa isa, const float* in, float* out, std::byte* scratch, int64_t first) const {
  float* rows[2] = {reinterpret_cast<float*>(scratch), reinterpret_cast<float*>(scratch + row_bytes())};
  int64_t held[2] = {-1, -1};  // which input row each buffer has, stretched
  const auto stretched = [&](int64_t i, int64_t other) {
    for (int b = 0; b < 2; ++b)
      if (held[b] == i) return rows[b];
    const int b = held[0] == other ? 1 : 0;
    held[b] = i;
    resample_row<float>(isa, in + i * x_.in, 0, x_.in, x_.start.data(), wx_.data(), x_.out, 2, rows[b], x_.out);
    return rows[b];
  };
  for (int64_t y = first; y < std::min(first + rows_, y_.out); ++y) {
    const int64_t i0 = std::clamp<int64_t>(y_.start[y], 0, y_.in - 1);
    const int64_t i1 = std::clamp<int64_t>(int64_t{y_.start[y]} + 1, 0, y_.in - 1);
    const float* a = stretched(i0, i1);
    const float* b = stretched(i1, i0);
    blend_rows(isa, wy_[y], a, wy_[y_.out + y], b, out + y * x_.out, x_.out);
  }
}

}  // namespace

StatusOr<std::unique_ptr<const Resize>> make_bilinear_resize(DType dtype, const ResizeParams& params,
                                                             std::span<const ResizeAxis> axes) {
  std::unique_ptr<const Resize> none;
  if (dtype != DType::kFloat || params.mode != ResizeMode::linear || axes.size() < 2) return none;
  int64_t planes = 1;
  for (const ResizeAxis& a : axes.first(axes.size() - 2)) {
    if (!leaves_alone(params, a)) return none;
    planes *= a.in;
  }
  const ResizeAxis &ay = axes[axes.size() - 2], &ax = axes.back();
  if (leaves_alone(params, ay) || leaves_alone(params, ax)) return none;
  ASSIGN_OR_RETURN(AxisTable y, make_axis_table(params, ay));
  ASSIGN_OR_RETURN(AxisTable x, make_axis_table(params, ax));
  if (y.taps != 2 || x.taps != 2 || !y.outside.empty() || !x.outside.empty()) return none;
  return std::make_unique<BilinearResize>(std::move(y), std::move(x), planes);
}

}  // namespace forethought::kernels
