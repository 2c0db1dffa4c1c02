// ConvTranspose: the adjoint of convolution; each input element spreads a scaled kernel over the output.
#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "kernels/conv/col2im.h"
#include "kernels/conv/reference.h"
#include "kernels/gemm/sgemm.h"
#include "ops/conv/conv_op.h"

namespace forethought {
namespace {

using kernels::Matrix;
using kernels::volume;

class ReferenceInstance final : public Runnable {
 public:
  explicit ReferenceInstance(const kernels::ConvShape& shape) : shape_(shape) {}
  Status run(RunCtx& ctx) const override {
    if (volume(shape_.window.out) == 0) return absl::OkStatus();
    ctx.parallel_for(shape_.batch * shape_.out_channels, [&](int64_t plane, int) {
      dispatch(ctx.in(0).dtype, FloatTypes{}, [&]<typename T>() {
        kernels::conv_transpose_reference<T>(shape_, ctx.in_as<T>(0), ctx.in_as<T>(1),
                                             ctx.has_in(2) ? ctx.in_as<T>(2) : nullptr, ctx.out_as<T>(0), plane,
                                             plane + 1);
      });
    });
    return absl::OkStatus();
  }

 private:
  kernels::ConvShape shape_;
};

// columns[oc, tap, i] = sum over input channels w[ic, oc, tap] x[ic, i], one image and group after the other; then each
// output plane gathers its columns.
class ColumnsInstance final : public Runnable {
 public:
  ColumnsInstance(Isa isa, const kernels::ConvShape& shape)
      : isa_(isa),
        shape_(shape),
        k_(shape.in_channels / shape.groups),
        m_(shape.out_channels / shape.groups * volume(shape.window.kernel)),
        n_(volume(shape.window.in)) {}

  StatusOr<size_t> plan_scratch() {
    const auto packed = checked_mul(kernels::sgemm_packed_size(isa_, 1, n_), k_);
    const auto columns = checked_mul(m_, n_);
    if (!packed || !columns || *packed > (int64_t{1} << 58) || *columns > (int64_t{1} << 58))
      return unsupported("scratch sizes overflow");
    columns_ = static_cast<size_t>(*packed + 15) / 16 * 16;
    return (columns_ + static_cast<size_t>(*columns)) * sizeof(float);
  }

  Status run(RunCtx& ctx) const override {
    auto* packed = reinterpret_cast<float*>(ctx.scratch());
    float* columns = packed + columns_;
    const int64_t group_out = shape_.out_channels / shape_.groups, taps = volume(shape_.window.kernel);
    const int64_t out = volume(shape_.window.out), panels = kernels::sgemm_panels(isa_, n_);
    const int64_t row_block = 4 * kernels::sgemm_rows(isa_), row_blocks = (m_ + row_block - 1) / row_block;
    const float* bias = ctx.has_in(2) ? ctx.in_as<float>(2) : nullptr;
    for (int64_t image = 0; image < shape_.batch; ++image) {
      for (int64_t g = 0; g < shape_.groups; ++g) {
        const Matrix<float> x{ctx.in_as<float>(0) + (image * shape_.in_channels + g * k_) * n_, n_, 1};
        const Matrix<float> w{ctx.in_as<float>(1) + g * k_ * m_, 1, m_};
        const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, k_ * kernels::sgemm_panel(isa_)));
        parallel_ranges(ctx, panels, grain, [&](int64_t begin, int64_t end, int) {
          kernels::sgemm_pack<float>(isa_, x, k_, n_, packed, begin, end);
        });
        ctx.parallel_for(row_blocks, [&](int64_t block, int) {
          const int64_t begin = block * row_block, end = std::min(m_, begin + row_block);
          kernels::sgemm(isa_, w, kernels::sgemm_packed(isa_, packed, k_), n_, k_, columns, n_, begin, end, 0, panels,
                         false);
        });
        ctx.parallel_for(group_out, [&](int64_t c, int) {
          const int64_t channel = g * group_out + c;
          kernels::col2im(shape_.window, columns + c * taps * n_, bias ? bias[channel] : 0.0f,
                          ctx.out_as<float>(0) + (image * shape_.out_channels + channel) * out);
        });
      }
    }
    return absl::OkStatus();
  }

 private:
  Isa isa_;
  kernels::ConvShape shape_;
  int64_t k_, m_, n_;
  size_t columns_ = 0;
};

}  // namespace

struct ConvTranspose : SpatialAttributes {
  int64_t group = 1;
  std::vector<int64_t> output_padding, output_shape;

  static constexpr OpName name{"ConvTranspose"};
  static constexpr auto attrs = std::tuple{attr("auto_pad", &ConvTranspose::auto_pad),
                                           attr("dilations", &ConvTranspose::dilations),
                                           attr("group", &ConvTranspose::group),
                                           attr("kernel_shape", &ConvTranspose::kernel_shape),
                                           attr("output_padding", &ConvTranspose::output_padding),
                                           attr("output_shape", &ConvTranspose::output_shape),
                                           attr("pads", &ConvTranspose::pads),
                                           attr("strides", &ConvTranspose::strides)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 3, .in = {kFloats, kFloats, kFloats}};

  Status init(const GraphNode&) const {
    RETURN_IF_ERROR(check());
    if (group < 1) return invalid(absl::StrCat("attribute 'group' is ", group, "; it must be 1 or more"));
    for (int64_t v : output_padding)
      if (v < 0 || v >= (int64_t{1} << 31))
        return invalid(absl::StrCat("attribute 'output_padding' is [", absl::StrJoin(output_padding, ","), "]"));
    for (int64_t v : output_shape)
      if (v < 0) return invalid(absl::StrCat("attribute 'output_shape' is [", absl::StrJoin(output_shape, ","), "]"));
    return absl::OkStatus();
  }

  // How far the kernels reach before padding takes off both ends.
  Dim full(int d, const Dim& in, const Dim& kernel) const {
    const Dim extra = output_padding.empty() ? 0 : output_padding[d];
    return Dim(stride(d)) * (in - Dim(1)) + extra + (kernel - Dim(1)) * Dim(dilation(d)) + Dim(1);
  }

  StatusOr<absl::InlinedVector<Dim, 6>> sizes(std::span<const Dim> in, std::span<const Dim> kernel) const {
    const int rank = static_cast<int>(in.size());
    RETURN_IF_ERROR(check_rank(rank));
    for (const auto& [list, what] : {std::pair{&output_padding, "output_padding"}, {&output_shape, "output_shape"}})
      if (!list->empty() && list->size() != in.size())
        return invalid(absl::StrCat("attribute '", what, "' has ", list->size(), " entries; ", rank,
                                    " spatial dimensions need ", rank));
    absl::InlinedVector<Dim, 6> out;
    for (int d = 0; d < rank; ++d) {
      if (!output_shape.empty()) {
        out.push_back(Dim(output_shape[d]));
      } else if (same_padding()) {
        out.push_back(in[d] * Dim(stride(d)));
      } else {
        out.push_back(full(d, in[d], kernel[d]) - Dim(pad_begin(d) + pad_end(d, rank)));
      }
      if (out[d].is_known() && out[d].value() < 0)
        return invalid(absl::StrCat("attribute 'pads' takes more off spatial dimension ", d, " than there is"));
    }
    return out;
  }

  Status infer(InferCtx& c) const {
    const SymShape &x = c.shape(0), &w = c.shape(1), &bias = c.shape(2);
    for (int i = 1; i < c.inputs(); ++i)
      if (c.has_in(i) && c.dtype(i) != DType::kUndefined && c.dtype(i) != c.dtype(0))
        return invalid(absl::StrCat("input ", i, " is ", forethought::name(c.dtype(i)), " and input 0 is ",
                                    forethought::name(c.dtype(0)), "; they must be of one type"));
    if (x.has_rank && w.has_rank && x.rank() != w.rank())
      return invalid(absl::StrCat("the input ", to_string(x), " and the weights ", to_string(w), " differ in rank"));
    if (!x.has_rank && !w.has_rank) {
      c.set(0, c.dtype(0), SymShape::unknown());
      return absl::OkStatus();
    }
    const int rank = (x.has_rank ? x.rank() : w.rank()) - 2;
    RETURN_IF_ERROR(check_rank(rank));
    absl::InlinedVector<Dim, 6> in(rank), kernel(rank);
    for (int d = 0; d < rank; ++d) {
      if (x.has_rank) in[d] = x.dims[d + 2];
      kernel[d] = !kernel_shape.empty() ? Dim(kernel_shape[d]) : w.has_rank ? w.dims[d + 2] : Dim();
      if (w.has_rank && w.dims[d + 2].is_known() && kernel[d].is_known() && w.dims[d + 2].value() != kernel[d].value())
        return invalid(absl::StrCat("attribute 'kernel_shape' does not match the weights ", to_string(w)));
    }
    Dim channels;
    if (w.has_rank) {
      if (x.has_rank && x.dims[1].is_known() && w.dims[0].is_known() && x.dims[1].value() != w.dims[0].value())
        return invalid(absl::StrCat("the input ", to_string(x), " has ", x.dims[1].value(), " channels; the weights ",
                                    to_string(w), " need ", w.dims[0].value()));
      if (w.dims[0].is_known() && w.dims[0].value() % group != 0)
        return invalid(absl::StrCat(w.dims[0].value(), " input channels do not divide into ", group, " groups"));
      channels = w.dims[1] * Dim(group);
      if (c.has_in(2) && bias.has_rank &&
          (bias.rank() != 1 ||
           (bias.dims[0].is_known() && channels.is_known() && bias.dims[0].value() != channels.value())))
        return invalid(absl::StrCat("the bias is ", to_string(bias), "; the weights ", to_string(w), " need [",
                                    to_string(channels), "]"));
    }
    SymShape y;
    y.has_rank = true;
    y.dims.push_back(x.has_rank ? x.dims[0] : Dim());
    y.dims.push_back(channels);
    ASSIGN_OR_RETURN(const auto spatial, sizes(in, kernel));
    y.dims.insert(y.dims.end(), spatial.begin(), spatial.end());
    c.set(0, c.dtype(0), std::move(y));
    return absl::OkStatus();
  }

  StatusOr<kernels::ConvShape> shape(std::span<const int64_t> x, std::span<const int64_t> w) const {
    kernels::ConvShape s;
    s.batch = x[0];
    s.in_channels = x[1];
    s.out_channels = w[1] * group;
    s.groups = group;
    const absl::InlinedVector<Dim, 6> in(x.begin() + 2, x.end()), kernel(w.begin() + 2, w.end());
    ASSIGN_OR_RETURN(const auto out, sizes(in, kernel));
    const int rank = static_cast<int>(in.size());
    for (int d = 0; d < rank; ++d) {
      const Dim reach = full(d, in[d], kernel[d]);
      if (!out[d].is_known() || !reach.is_known()) return invalid("output sizes overflow");
      int64_t begin = pad_begin(d);
      if (!output_shape.empty() || same_padding()) {
        const int64_t total = std::max<int64_t>(0, reach.value() - out[d].value());
        begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      }
      s.window.in.push_back(x[2 + d]);
      s.window.out.push_back(out[d].value());
      s.window.kernel.push_back(w[2 + d]);
      s.window.strides.push_back(stride(d));
      s.window.dilations.push_back(dilation(d));
      s.window.pads_begin.push_back(begin);
      s.window.pads_end.push_back(0);
    }
    return s;
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts;
    const Operand &x = ctx.inputs[0], &w = ctx.inputs[1];
    if (!x.known || !w.known) {
      facts.kernel = "convtranspose";
      facts.reason = "shapes are known at run only";
      return facts;
    }
    ASSIGN_OR_RETURN(const kernels::ConvShape s, shape(x.dims, w.dims));
    if (x.dtype == DType::kFloat && ctx.isa != Isa::scalar && s.in_channels > 0 && volume(s.window.out) > 0) {
      auto instance = std::make_shared<ColumnsInstance>(ctx.isa, s);
      ASSIGN_OR_RETURN(facts.scratch_shared, instance->plan_scratch());
      facts.kernel = absl::StrCat("convtranspose.columns.f32.", forethought::name(ctx.isa));
      facts.reason = "a matrix product, then columns to images";
      facts.instance = std::move(instance);
      return facts;
    }
    facts.kernel = absl::StrCat("convtranspose.reference.", forethought::name(x.dtype));
    facts.refused.push_back({"convtranspose.columns", ctx.isa == Isa::scalar     ? "the tier is scalar"
                                                      : x.dtype != DType::kFloat ? "it computes in f32 only"
                                                                                 : "a size is zero"});
    facts.instance = std::make_shared<ReferenceInstance>(s);
    return facts;
  }
};
DEFINE_OP(ConvTranspose)

}  // namespace forethought
