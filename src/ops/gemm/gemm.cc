// Gemm: y = alpha * A'·B' + beta * C, where ' transposes if asked to and C broadcasts; and FusedGemm with an
// activation.
#include "ops/conv/conv_op.h"
#include "ops/gemm/gemm_core.h"
#include "ops/op.h"

namespace forethought {
namespace {

constexpr TypeSet kGemmTypes = kFloats | DType::kInt32 | DType::kInt64 | DType::kUint32 | DType::kUint64;

}  // namespace

struct GemmBase {
  float alpha = 1, beta = 1;
  bool transA = false, transB = false;

  Status infer(InferCtx& c) const {
    const SymShape &a = c.shape(0), &b = c.shape(1), &z = c.shape(2);
    for (int i = 1; i < c.inputs(); ++i)
      if (c.has_in(i) && c.dtype(i) != DType::kUndefined && c.dtype(i) != c.dtype(0))
        return invalid(absl::StrCat("input ", i, " is ", forethought::name(c.dtype(i)), " and input 0 is ",
                                    forethought::name(c.dtype(0)), "; they must be of one type"));
    for (int i = 0; i < 2; ++i)
      if (c.shape(i).has_rank && c.shape(i).rank() != 2)
        return invalid(absl::StrCat("input ", i, " is ", to_string(c.shape(i)), "; it must be a matrix"));
    const Dim m = a.has_rank ? a.dims[transA] : Dim(), ka = a.has_rank ? a.dims[!transA] : Dim();
    const Dim kb = b.has_rank ? b.dims[transB] : Dim(), n = b.has_rank ? b.dims[!transB] : Dim();
    if (ka.is_known() && kb.is_known() && ka.value() != kb.value())
      return invalid(absl::StrCat("A is ", to_string(a), transA ? " transposed" : "", " and B is ", to_string(b),
                                  transB ? " transposed" : "", ": ", ka.value(), " columns meet ", kb.value(),
                                  " rows"));
    if (c.has_in(2) && z.has_rank) {
      bool fits = z.rank() <= 2;
      const Dim want[2] = {m, n};
      for (int d = 0; fits && d < z.rank(); ++d) {
        const Dim &have = z.dims[z.rank() - 1 - d], &need = want[1 - d];
        fits = !have.is_known() || have.value() == 1 || !need.is_known() || have.value() == need.value();
      }
      if (!fits)
        return invalid(absl::StrCat("C is ", to_string(z), ", which does not broadcast to [", to_string(m), ",",
                                    to_string(n), "]"));
    }
    c.set(0, c.dtype(0), SymShape({m, n}));
    c.by_formula();
    return absl::OkStatus();
  }

  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& ctx) const {
    const Tensor* b = ctx.constants[1];
    if (!b || b->dims.size() != 2) return std::vector<PackSpec>{};
    const int64_t k = b->dims[transB], n = b->dims[!transB], cols = b->dims[1];
    return gemm_pack_spec(ctx.isa, 1, b->dtype, 1, k, n, transB ? 1 : cols, transB ? cols : 1);
  }

  bool takes_view(const PrepareCtx& ctx, int input, ViewUnit unit, int readers) const {
    return gemm_takes_view(ctx, input, unit, readers);
  }

  StatusOr<KernelFacts> choose_with(const kernels::Epilogue& epilogue, const ChooseCtx& ctx) const {
    if (!sizes_known(ctx)) {
      KernelFacts facts;
      facts.kernel = "gemm";
      facts.reason = "shapes are known at run only";
      return facts;
    }
    return choose_gemm(problem_of(epilogue, ctx), "gemm", ctx.cache);
  }
  Refit refit_with(const kernels::Epilogue& epilogue, const ChooseCtx& ctx, const Runnable& earlier) const {
    return sizes_known(ctx) ? refit_gemm(problem_of(epilogue, ctx), earlier) : Refit();
  }

 private:
  static bool has_c(const ChooseCtx& ctx) { return ctx.inputs.size() > 2 && ctx.inputs[2].present; }
  static bool sizes_known(const ChooseCtx& ctx) {
    return ctx.inputs[0].known && ctx.inputs[1].known && (!has_c(ctx) || ctx.inputs[2].known);
  }
  GemmProblem problem_of(const kernels::Epilogue& epilogue, const ChooseCtx& ctx) const {
    const Operand &a = ctx.inputs[0], &b = ctx.inputs[1];
    GemmProblem p;
    p.isa = ctx.isa;
    p.dtype = a.dtype;
    p.m = a.dims[transA];
    p.k = a.dims[!transA];
    p.n = b.dims[!transB];
    const auto steps = [](const Operand& o) {
      return o.strides.empty() ? row_major_strides(o.dims) : Dims(o.strides.begin(), o.strides.end());
    };
    const Dims a_steps = steps(a), b_steps = steps(b);
    p.a_row = a_steps[transA];
    p.a_col = a_steps[!transA];
    p.b_row = b_steps[transB];
    p.b_col = b_steps[!transB];
    p.b_packed = b.packed != nullptr;
    p.alpha = alpha;
    p.epilogue = epilogue;
    if (has_c(ctx) && beta != 0) {
      const std::span<const int64_t> z = ctx.inputs[2].dims;
      const int64_t cols = z.empty() ? 1 : z.back(), rows = z.size() < 2 ? 1 : z[0];
      p.addend = 2;
      p.beta = beta;
      p.z_row = rows == 1 ? 0 : cols;
      p.z_col = cols == 1 ? 0 : 1;
      p.z_elements = rows * cols;
    }
    return p;
  }
};

struct Gemm : GemmBase {
  static constexpr OpName name{"Gemm"};
  static constexpr auto attrs = std::tuple{attr("alpha", &Gemm::alpha), attr("beta", &Gemm::beta),
                                           attr("transA", &Gemm::transA), attr("transB", &Gemm::transB)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 3, .in = {kGemmTypes, kGemmTypes, kGemmTypes}};

  StatusOr<KernelFacts> choose(const ChooseCtx& c) const { return choose_with({}, c); }
  Refit refit(const ChooseCtx& c, const Runnable& earlier) const { return refit_with({}, c, earlier); }
};
DEFINE_OP(Gemm)

// forethought.FusedGemm: activation(Gemm), with the activation as FusedConv has it.
struct FusedGemm : GemmBase {
  std::string activation;
  std::vector<float> activation_params;

  static constexpr OpName name{"FusedGemm", "forethought"};
  static constexpr auto attrs =
      std::tuple{attr("alpha", &FusedGemm::alpha),           attr("beta", &FusedGemm::beta),
                 attr("transA", &FusedGemm::transA),         attr("transB", &FusedGemm::transB),
                 attr("activation", &FusedGemm::activation), attr("activation_params", &FusedGemm::activation_params)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 3, .in = {DType::kFloat, DType::kFloat, DType::kFloat}};

  Status init(const GraphNode&) const { return epilogue_of(activation, activation_params).status(); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const {
    ASSIGN_OR_RETURN(const kernels::Epilogue e, epilogue_of(activation, activation_params));
    return choose_with(e, c);
  }
  Refit refit(const ChooseCtx& c, const Runnable& earlier) const {
    const auto e = epilogue_of(activation, activation_params);
    return e.ok() ? refit_with(*e, c, earlier) : Refit();
  }
};
DEFINE_OP(FusedGemm)

}  // namespace forethought
