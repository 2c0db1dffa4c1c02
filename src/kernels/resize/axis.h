// Resize along one axis: where each output position lies in the input, which elements it reads and with what weights.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"

namespace forethought::kernels {

enum class ResizeMode : uint8_t { nearest, linear, cubic };
enum class NearestMode : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil };
enum class Coordinates : uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_crop_and_resize,
  tf_half_pixel_for_nn,  // of Resize-11 alone
};

// The attributes of ONNX Resize that decide values (not sizes).
struct ResizeParams {
  ResizeMode mode = ResizeMode::nearest;
  NearestMode nearest = NearestMode::round_prefer_floor;
  Coordinates coordinates = Coordinates::half_pixel;
  bool antialias = false;        // linear and cubic, where an axis shrinks
  bool exclude_outside = false;  // weights of positions outside the input go to those inside
  float cubic_coeff_a = -0.75f;
  float extrapolation_value = 0;  // of tf_crop_and_resize, outside the input
};

// `scale` is out / in before rounding: the given scale, or the quotient of the sizes. The region of interest, in
// fractions of the input, is read by tf_crop_and_resize alone.
struct ResizeAxis {
  int64_t in = 1, out = 1;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

// floor(in · scale); nothing if the scale is not a positive finite number or the extent does not fit.
std::optional<int64_t> scaled_extent(int64_t in, float scale);

// An axis that keeps its extent at scale 1 (and its whole region) is left alone by every mode: no coordinate is moved.
bool leaves_alone(const ResizeParams& params, const ResizeAxis& axis);

// Output position i reads input positions clamp(start[i] + k, 0, in - 1) with weight[k · out + i], k < taps.
// Nearest has one tap and no weights.
struct AxisTable {
  int64_t in = 1, out = 1;
  int32_t taps = 1;
  std::vector<int32_t> start;
  std::vector<double> weight;
  std::vector<uint8_t> outside;  // 1 where the extrapolation value stands instead; empty if nowhere
};
// Refuses axes of more than 2^27 elements, and making something of nothing (in 0, out not 0).
StatusOr<AxisTable> make_axis_table(const ResizeParams& params, const ResizeAxis& axis);

}  // namespace forethought::kernels
