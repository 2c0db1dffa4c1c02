// Clip: min(max(x, lo), hi); a bound that is not given is the type's lowest or highest number. NaN stays NaN.
#include <limits>

#include "ops/pointwise/pointwise.h"

namespace forethought {
namespace {

// One element of each type, at a fixed address.
template <typename T>
struct Bounds {
  static inline const T low = std::numeric_limits<T>::lowest();
  static inline const T high = std::numeric_limits<T>::max();
};
template <>
struct Bounds<Float16> {
  static inline const Float16 low = Float16::from_bits(0xfbff), high = Float16::from_bits(0x7bff);
};
template <>
struct Bounds<BFloat16> {
  static inline const BFloat16 low = BFloat16::from_bits(0xff7f), high = BFloat16::from_bits(0x7f7f);
};

Source bound(const ChooseCtx& ctx, int input, bool high) {
  if (input < static_cast<int>(ctx.inputs.size()) && ctx.inputs[input].present) return from_input(input);
  Source s;
  s.dtype = ctx.inputs[0].dtype;
  dispatch(s.dtype, NumberTypes{}, [&]<typename T>() { s.fixed = high ? &Bounds<T>::high : &Bounds<T>::low; });
  return s;
}

}  // namespace

struct Clip {
  static constexpr OpName name{"Clip"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 1,
                                 .max_inputs = 3,
                                 .in = {kNumbers, kNumbers, kNumbers},
                                 .may_overwrite = 1,
                                 .elementwise = true,
                                 .strided = 1};

  Status infer(InferCtx& c) const {
    RETURN_IF_ERROR(require_one_type(c, 3));
    for (int i = 1; i < 3; ++i) {
      if (!c.has_in(i)) continue;
      const Dim elements = c.shape(i).elements();
      if (elements.is_known() && elements.value() != 1)
        return invalid(absl::StrCat("input ", i, " (", i == 1 ? "min" : "max", ") has shape ", to_string(c.shape(i)),
                                    "; a bound is one number"));
    }
    c.set(0, c.dtype(0), c.shape(0));
    c.by_formula();
    return absl::OkStatus();
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    const Source sources[] = {from_input(0), bound(ctx, 1, false), bound(ctx, 2, true)};
    return choose_pointwise(ctx, name, traits, sources, {}, [](kernels::Program& p, std::span<const int> v) {
      return p.apply(kernels::PointwiseOp::Clip, {v[0], v[1], v[2]});
    });
  }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const { return refit_pointwise(ctx, earlier); }
};
DEFINE_OP(Clip)

}  // namespace forethought
