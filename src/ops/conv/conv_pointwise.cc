// Grouped 1×1 convolutions as matrix products on plain channels: y[g] = w[g] · x[g], one column a position.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernel_api/run_ctx.h"
#include "kernels/gemm/sgemm.h"
#include "ops/conv/conv_instance.h"

namespace forethought {
namespace {

using kernels::Matrix;

class PointwiseInstance final : public Runnable {
 public:
  explicit PointwiseInstance(const ConvProblem& p)
      : p_(p),
        m_(p.pack.group_out),
        k_(p.pack.group_in),
        n_(kernels::volume(p.shape.window.in)),
        panel_(kernels::sgemm_panel(p.isa)),
        panels_(kernels::sgemm_panels(p.isa, n_)) {
    // About half a million products a share.
    const int64_t wanted = std::clamp<int64_t>(500'000 / std::max<int64_t>(1, m_ * k_ * panel_), 1, panels_);
    parts_ = (panels_ + wanted - 1) / wanted;
    per_part_ = (panels_ + parts_ - 1) / parts_;
  }

  Status run(RunCtx& ctx) const override {
    const float *x = ctx.in_as<float>(0), *w = ctx.in_as<float>(1), *bias = p_.bias ? ctx.in_as<float>(2) : nullptr;
    const float* z = p_.residual >= 0 ? ctx.in_as<float>(p_.residual) : nullptr;
    float* y = ctx.out_as<float>(0);
    ctx.parallel_for(p_.shape.batch * p_.pack.groups * parts_, [&](int64_t unit, int worker) {
      const int64_t part = unit % parts_, group = unit / parts_ % p_.pack.groups,
                    image = unit / parts_ / p_.pack.groups;
      const int64_t p0 = part * per_part_, p1 = std::min(panels_, p0 + per_part_), whole = std::min(p1, n_ / panel_);
      const int64_t j0 = p0 * panel_, j1 = std::min(n_, p1 * panel_);
      if (j0 >= j1) return;
      const float* from = x + (image * p_.shape.in_channels + group * k_) * n_;
      const int64_t out_at = (image * p_.shape.out_channels + group * m_) * n_;
      float* to = y + out_at;
      const Matrix<float> a{w + group * m_ * k_, k_, 1};
      if (z && z != y)
        for (int64_t i = 0; i < m_; ++i)
          std::memcpy(to + i * n_ + j0, z + out_at + i * n_ + j0, static_cast<size_t>(j1 - j0) * sizeof(float));
      if (p0 < whole)
        kernels::sgemm(p_.isa, a, kernels::sgemm_in_place(p_.isa, from, n_), n_, k_, to, n_, 0, m_, p0, whole,
                       z != nullptr);
      if (whole < p1) {
        // Columns beyond the last whole panel cannot be read in place.
        auto* packed = reinterpret_cast<float*>(ctx.worker_scratch(worker));
        kernels::sgemm_pack<float>(p_.isa, {from + whole * panel_, n_, 1}, k_, n_ - whole * panel_, packed, 0, 1);
        kernels::sgemm(p_.isa, a, kernels::sgemm_packed(p_.isa, packed, k_), n_ - whole * panel_, k_,
                       to + whole * panel_, n_, 0, m_, 0, 1, z != nullptr);
      }
      kernels::sgemm_finish(p_.isa, {1, 1, {bias ? bias + group * m_ : nullptr, 1, 0}, p_.epilogue}, to, n_, 0, m_, j0,
                            j1);
    });
    return absl::OkStatus();
  }

  size_t worker() const { return n_ % panel_ ? static_cast<size_t>(k_ * panel_) * sizeof(float) : 0; }
  int64_t shares() const { return p_.shape.batch * p_.pack.groups * parts_; }

 private:
  ConvProblem p_;
  int64_t m_, k_, n_, panel_, panels_, parts_ = 1, per_part_ = 1;
};

}  // namespace

bool grouped_pointwise(const kernels::ConvPack& pack, bool unit_steps, bool padded) {
  return pack.form == kernels::ConvForm::blocked && pack.groups > 1 && pack.taps == 1 && unit_steps && !padded &&
         (pack.group_in % pack.block != 0 || pack.group_out % pack.block != 0);
}

StatusOr<KernelFacts> choose_pointwise_conv(const ConvProblem& p) {
  auto instance = std::make_shared<PointwiseInstance>(p);
  KernelFacts facts;
  facts.kernel = absl::StrCat("conv.panels.f32.", name(p.isa));
  facts.reason = absl::StrCat("1x1 in groups of ", p.pack.group_in, " to ", p.pack.group_out,
                              " channels: a matrix product on plain channels; ", instance->shares(), " shares");
  facts.refused.push_back({absl::StrCat("conv.onednn.direct.f32.", name(p.isa)),
                           absl::StrCat("groups would be padded to blocks of ", p.pack.block, " channels")});
  facts.scratch_per_worker = instance->worker();
  facts.instance = std::move(instance);
  return facts;
}

}  // namespace forethought
