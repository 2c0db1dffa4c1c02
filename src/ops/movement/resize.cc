// Resize: an N-d tensor sampled at other sizes; modes and coordinates as ONNX names them.
#include "kernels/resize/resize.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "kernel_api/instance_cache.h"
#include "ops/movement/moves.h"

namespace forethought {
namespace {

using kernels::Coordinates;
using kernels::ResizeAxis;
using kernels::ResizeParams;

class ResizeInstance final : public Runnable {
 public:
  explicit ResizeInstance(std::unique_ptr<const kernels::Resize> resize) : resize_(std::move(resize)) {}
  const kernels::Resize& resize() const { return *resize_; }
  Status run(RunCtx& ctx) const override { return run(ctx, ctx.scratch(), ctx.scratch_shared, ctx.scratch_per_worker); }
  Status run(RunCtx& ctx, std::byte* scratch, size_t shared, size_t per_worker) const {
    const Isa isa = active_isa();
    for (int phase = 0; phase < resize_->phases(); ++phase)
      parallel_ranges(ctx, resize_->units(phase), resize_->grain(phase), [&](int64_t begin, int64_t end, int worker) {
        resize_->run(isa, phase, ctx.in(0).data, ctx.out(0).data, scratch,
                     scratch + shared + static_cast<size_t>(worker) * per_worker, begin, end);
      });
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<const kernels::Resize> resize_;
};

// The position of `word` among `words`, which are ONNX's spellings in the order of the enum.
StatusOr<int> choice(const char* attribute, const std::string& word, std::initializer_list<const char*> words) {
  std::string all;
  int i = 0;
  for (const char* w : words) {
    if (word == w) return i;
    absl::StrAppend(&all, i++ ? ", " : "", w);
  }
  return invalid(absl::StrCat("attribute '", attribute, "' is '", word, "'; there are ", all));
}

int64_t round_half_up(double x) { return static_cast<int64_t>(std::floor(x + 0.5)); }

}  // namespace

struct Resize {
  bool antialias = false;
  std::optional<std::vector<int64_t>> axes;
  std::string coordinate_transformation_mode = "half_pixel";
  float cubic_coeff_a = -0.75f;
  bool exclude_outside = false;
  float extrapolation_value = 0;
  std::string keep_aspect_ratio_policy = "stretch";
  std::string mode = "nearest";
  std::string nearest_mode = "round_prefer_floor";
  static constexpr OpName name{"Resize"};
  static constexpr auto attrs =
      std::tuple{attr("antialias", &Resize::antialias),
                 attr("axes", &Resize::axes),
                 attr("coordinate_transformation_mode", &Resize::coordinate_transformation_mode),
                 attr("cubic_coeff_a", &Resize::cubic_coeff_a),
                 attr("exclude_outside", &Resize::exclude_outside),
                 attr("extrapolation_value", &Resize::extrapolation_value),
                 attr("keep_aspect_ratio_policy", &Resize::keep_aspect_ratio_policy),
                 attr("mode", &Resize::mode),
                 attr("nearest_mode", &Resize::nearest_mode)};
  static constexpr Traits traits{.min_inputs = 1,
                                 .max_inputs = 4,
                                 .in = {movement::kMoved, kFloats, DType::kFloat, DType::kInt64},
                                 .contents = 0b1110};

  Status init(const GraphNode&);
  Status infer(InferCtx& c) const;
  bool accepts(LayoutQuery& q) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const;
  Status run(RunCtx& ctx) const;

 private:
  enum Policy { stretch, not_larger, not_smaller };
  enum Input { kX, kRoi, kScales, kSizes };
  Status resized_axes(int rank, movement::Axes* where) const;
  Status infer_scaled(InferCtx& c, std::span<const int> where, SymShape* out) const;
  Status infer_sized(InferCtx& c, std::span<const int> where, SymShape* out) const;
  bool ready(const movement::View& v) const;
  StatusOr<std::vector<ResizeAxis>> plan(const movement::View& v) const;
  StatusOr<std::unique_ptr<const kernels::Resize>> make(const movement::View& v,
                                                        const std::vector<ResizeAxis>& plan) const;

  ResizeParams params_;
  Policy policy_ = stretch;
};
DEFINE_OP(Resize)

Status Resize::init(const GraphNode&) {
  ASSIGN_OR_RETURN(const int m, choice("mode", mode, {"nearest", "linear", "cubic"}));
  ASSIGN_OR_RETURN(const int n,
                   choice("nearest_mode", nearest_mode, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  ASSIGN_OR_RETURN(const int c, choice("coordinate_transformation_mode", coordinate_transformation_mode,
                                       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                        "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}));
  ASSIGN_OR_RETURN(const int p, choice("keep_aspect_ratio_policy", keep_aspect_ratio_policy,
                                       {"stretch", "not_larger", "not_smaller"}));
  params_ = {static_cast<kernels::ResizeMode>(m),
             static_cast<kernels::NearestMode>(n),
             static_cast<Coordinates>(c),
             antialias,
             exclude_outside,
             cubic_coeff_a,
             extrapolation_value};
  policy_ = static_cast<Policy>(p);
  if (antialias && params_.mode == kernels::ResizeMode::nearest)
    return invalid("attribute 'antialias' needs mode linear or cubic");
  return absl::OkStatus();
}

Status Resize::resized_axes(int rank, movement::Axes* where) const {
  if (axes) return movement::normalise_axes(*axes, rank, where);
  for (int d = 0; d < rank; ++d) where->push_back(d);
  return absl::OkStatus();
}

Status Resize::infer(InferCtx& c) const {
  // Older files give what they do not mean as empty tensors.
  const auto given = [&](int i) { return c.has_in(i) && movement::length_of(c, i) != 0; };
  const bool scales = given(kScales), sizes = given(kSizes);
  const bool decided =
      (!c.has_in(kScales) || movement::length_of(c, kScales)) && (!c.has_in(kSizes) || movement::length_of(c, kSizes));
  if (decided && scales == sizes)
    return invalid(scales ? "has both scales and sizes; one must be left out" : "has neither scales nor sizes");
  if (params_.coordinates == Coordinates::tf_crop_and_resize && !given(kRoi))
    return invalid("coordinate_transformation_mode tf_crop_and_resize needs the input roi");
  const DType dtype = c.dtype(kX);
  if (params_.mode != kernels::ResizeMode::nearest && dtype != DType::kUndefined && !kNumbers.contains(dtype))
    return unsupported(absl::StrCat("only mode nearest can resize ", forethought::name(dtype)));
  const SymShape& in = c.shape(kX);
  if (!in.has_rank) return movement::set_moved(c, 0, {});
  movement::Axes where;
  RETURN_IF_ERROR(resized_axes(in.rank(), &where));
  for (int i : {kScales, kSizes})
    if (const auto n = movement::length_of(c, i); given(i) && n && *n != std::ssize(where))
      return invalid(absl::StrCat("there are ", *n, i == kScales ? " scales" : " sizes", " for ", where.size(),
                                  " axes of ", to_string(in)));
  SymShape out = in;
  if (!decided) {
    for (int d : where) out.dims[d] = Dim();
  } else if (scales) {
    RETURN_IF_ERROR(infer_scaled(c, where, &out));
  } else {
    RETURN_IF_ERROR(infer_sized(c, where, &out));
  }
  if (decided && (scales || policy_ == stretch)) c.by_formula();
  return movement::set_moved(c, 0, std::move(out));
}

Status Resize::infer_scaled(InferCtx& c, std::span<const int> where, SymShape* out) const {
  const SymValue* v = c.value(kScales);
  for (size_t i = 0; i < where.size(); ++i) {
    Dim& d = out->dims[where[i]];
    if (!v || !v->is_float || v->floats.size() != where.size()) {
      d = Dim();
      continue;
    }
    const double s = v->floats[i];
    if (!(s > 0) || !std::isfinite(s))
      return invalid(absl::StrCat("the scale of axis ", where[i], " is ", s, ", no positive number"));
    if (d.is_known()) {
      const auto extent = kernels::scaled_extent(d.value(), static_cast<float>(s));
      if (!extent)
        return invalid(absl::StrCat("axis ", where[i], " of ", d.value(), " elements cannot be scaled by ", s));
      d = *extent;
    } else if (s == std::floor(s) && s < 0x1p31) {
      d = d * Dim(static_cast<int64_t>(s));
    } else if (const double whole = 1 / s; whole == std::floor(whole) && whole < 0x1p31 && 1 / whole == s) {
      d = floor_div(d, Dim(static_cast<int64_t>(whole)));
    } else {
      d = Dim();
    }
  }
  return absl::OkStatus();
}

Status Resize::infer_sized(InferCtx& c, std::span<const int> where, SymShape* out) const {
  const SymValue* v = c.value(kSizes);
  if (!v || v->is_float || v->ints.size() != where.size()) {
    for (int d : where) out->dims[d] = Dim();
    return absl::OkStatus();
  }
  double scale = 0;
  bool all_known = true;
  for (size_t i = 0; i < where.size(); ++i) {
    const Dim in = out->dims[where[i]], size = v->ints[i];
    if (size.is_known() && size.value() < 0)
      return invalid(absl::StrCat("the size of axis ", where[i], " is ", size.value()));
    if (policy_ == stretch) {
      out->dims[where[i]] = size;
    } else if (!in.is_known() || !size.is_known()) {
      all_known = false;
    } else if (in.value() == 0) {
      return invalid(absl::StrCat("axis ", where[i], " has no elements, so there is no aspect ratio to keep"));
    } else {
      const double s = static_cast<double>(size.value()) / static_cast<double>(in.value());
      scale = i == 0 ? s : policy_ == not_larger ? std::min(scale, s) : std::max(scale, s);
    }
  }
  if (policy_ == stretch) return absl::OkStatus();
  for (int d : where) {
    const double extent = all_known ? scale * static_cast<double>(out->dims[d].value()) : 0;
    if (extent > 0x1p61) return invalid(absl::StrCat("axis ", d, " would have more elements than can be counted"));
    out->dims[d] = all_known ? Dim(round_half_up(extent)) : Dim();
  }
  return absl::OkStatus();
}

// Channel blocks stay as they are where only spatial dims are resized.
bool Resize::accepts(LayoutQuery& q) const {
  const SymShape& in = *q.input_shapes[0];
  const SymShape& out = *q.output_shapes[0];
  if (!q.inputs[0].is_blocked() || params_.coordinates == Coordinates::tf_crop_and_resize) return false;
  for (size_t i = 1; i < q.inputs.size(); ++i)
    if (!q.inputs[i].is_plain()) return false;
  if (!in.has_rank || !out.has_rank || in.rank() < 3 || policy_ != stretch) return false;
  if (!in.dims[0].same(out.dims[0]) || !in.dims[1].same(out.dims[1])) return false;
  q.outputs[0] = q.inputs[0];
  return true;
}

bool Resize::ready(const movement::View& v) const {
  const auto lacks = [&](size_t i) { return v.has(i) && v.in[i].elements() > 0 && !v.in[i].contents; };
  if (params_.coordinates == Coordinates::tf_crop_and_resize && lacks(kRoi)) return false;
  return !lacks(kScales) && (policy_ == stretch || !lacks(kSizes));
}

// Each dim's resampling. Sizes that stretch are those of the output; all else is read from the inputs' contents.
StatusOr<std::vector<ResizeAxis>> Resize::plan(const movement::View& v) const {
  const std::span<const int64_t> in = v.in[0].dims, out = v.out[0].dims;
  std::vector<ResizeAxis> plan;
  for (size_t d = 0; d < in.size(); ++d) {
    const double quotient = in[d] == 0 ? 1 : static_cast<double>(out[d]) / static_cast<double>(in[d]);
    plan.push_back({in[d], out[d], quotient});
  }
  movement::Axes where;
  RETURN_IF_ERROR(resized_axes(static_cast<int>(in.size()), &where));
  const size_t n = where.size();
  if (v.has(kScales) && v.in[kScales].elements() == static_cast<int64_t>(n)) {
    for (size_t i = 0; i < n; ++i)
      plan[where[i]].scale = kernels::load_element<float>(v.in[kScales].contents, static_cast<int64_t>(i));
  } else if (policy_ != stretch) {
    const auto sizes = v.ints(kSizes);
    double scale = 0;
    for (size_t i = 0; i < n && i < sizes.size(); ++i) {
      const double s = static_cast<double>(sizes[i]) / static_cast<double>(std::max<int64_t>(1, in[where[i]]));
      scale = i == 0 ? s : policy_ == not_larger ? std::min(scale, s) : std::max(scale, s);
    }
    for (int d : where) plan[d].scale = scale;
  }
  if (params_.coordinates == Coordinates::tf_crop_and_resize) {
    if (v.in[kRoi].elements() != static_cast<int64_t>(2 * n))
      return invalid(absl::StrCat("roi has ", v.in[kRoi].elements(), " elements; ", n, " axes need ", 2 * n));
    std::vector<double> roi;
    dispatch(v.in[kRoi].dtype, FloatTypes{}, [&]<typename T>() {
      for (size_t i = 0; i < 2 * n; ++i) {
        if constexpr (std::is_same_v<T, double>)
          roi.push_back(kernels::load_element<double>(v.in[kRoi].contents, i));
        else
          roi.push_back(static_cast<float>(kernels::load_element<T>(v.in[kRoi].contents, i)));
      }
    });
    for (size_t i = 0; i < n; ++i) plan[where[i]].roi_begin = roi[i], plan[where[i]].roi_end = roi[n + i];
  }
  if (const Layout l = v.in[0].layout; l.is_blocked()) {
    const int64_t blocks = (in[1] + l.block - 1) / l.block;
    plan[1] = {blocks, blocks, 1};
    plan.push_back({l.block, l.block, 1});
  }
  return plan;
}

StatusOr<std::unique_ptr<const kernels::Resize>> Resize::make(const movement::View& v,
                                                              const std::vector<ResizeAxis>& plan) const {
  return kernels::Resize::make(v.in[0].dtype, params_, plan);
}

StatusOr<KernelFacts> Resize::choose(const ChooseCtx& ctx) const {
  if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
  KernelFacts facts = default_facts(name, traits, ctx);
  const movement::View view = movement::view_of(ctx);
  if (!ready(view)) {
    facts.reason = "the scales are known only at run";
    return facts;
  }
  ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes_plan, plan(view));
  InstanceKey key("Resize");
  key.add(params_.mode)
      .add(params_.nearest)
      .add(params_.coordinates)
      .add(params_.antialias)
      .add(params_.exclude_outside);
  key.add(params_.cubic_coeff_a).add(params_.extrapolation_value).add(view.in[0].dtype);
  for (const ResizeAxis& a : axes_plan) key.add(a);
  int64_t bytes = 256;  // and about 32 for each position of a table
  for (const ResizeAxis& a : axes_plan) bytes += a.out * 32;
  ASSIGN_OR_RETURN(facts.instance,
                   cached_instance(ctx.cache, key, bytes, [&]() -> StatusOr<std::shared_ptr<const Runnable>> {
                     ASSIGN_OR_RETURN(auto resize, make(view, axes_plan));
                     return std::make_shared<ResizeInstance>(std::move(resize));
                   }));
  const kernels::Resize& r = static_cast<const ResizeInstance&>(*facts.instance).resize();
  facts.kernel = absl::StrCat("resize.", r.name(), ".", mode, ".", forethought::name(view.in[0].dtype));
  facts.scratch_shared = r.scratch_bytes();
  facts.scratch_per_worker = r.worker_scratch_bytes();
  return facts;
}

Status Resize::run(RunCtx& ctx) const {
  const movement::View view = movement::view_of(ctx);
  ASSIGN_OR_RETURN(const std::vector<ResizeAxis> axes_plan, plan(view));
  ASSIGN_OR_RETURN(auto made, make(view, axes_plan));
  const ResizeInstance instance(std::move(made));
  const kernels::Resize& r = instance.resize();
  const size_t per_worker = round_up(r.worker_scratch_bytes(), 64);
  const auto bytes = checked_mul(static_cast<int64_t>(per_worker), ctx.host->workers());
  const auto all = bytes ? checked_add(*bytes, static_cast<int64_t>(r.scratch_bytes())) : std::nullopt;
  if (!all) return invalid("the resized shape is too large to address");
  if (*all == 0) return instance.run(ctx, nullptr, 0, 0);
  const int64_t dims[] = {*all};
  ASSIGN_OR_RETURN(const Tensor scratch, ctx.host->make_escaping(DType::kUint8, dims));
  return instance.run(ctx, static_cast<std::byte*>(scratch.data), r.scratch_bytes(), per_worker);
}

}  // namespace forethought
