// MatMul: numpy's matrix product, batched and broadcast; and FusedMatMul, which adds a bias row and an activation.
#include "ops/conv/conv_op.h"
#include "ops/gemm/gemm_core.h"
#include "ops/op.h"

namespace forethought {
namespace {

constexpr TypeSet kMatMulTypes = kFloats | DType::kInt32 | DType::kInt64 | DType::kUint32 | DType::kUint64;

Status infer_matmul(InferCtx& c) {
  const SymShape &a = c.shape(0), &b = c.shape(1);
  if (c.dtype(1) != DType::kUndefined && c.dtype(1) != c.dtype(0))
    return invalid(absl::StrCat("input 1 is ", name(c.dtype(1)), " and input 0 is ", name(c.dtype(0)),
                                "; they must be of one type"));
  for (int i = 0; i < 2; ++i)
    if (c.shape(i).has_rank && c.shape(i).rank() == 0)
      return invalid(absl::StrCat("input ", i, " is a scalar; a matrix product needs rank 1 or more"));
  if (!a.has_rank || !b.has_rank) {
    c.set(0, c.dtype(0), SymShape::unknown());
    return absl::OkStatus();
  }
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const Dim ka = a.dims.back(), kb = column ? b.dims[0] : b.dims[b.rank() - 2];
  if (ka.is_known() && kb.is_known() && ka.value() != kb.value())
    return invalid(absl::StrCat("A is ", to_string(a), " and B is ", to_string(b), ": ", ka.value(), " columns meet ",
                                kb.value(), " rows"));
  SymShape batch_a, batch_b;
  batch_a.has_rank = batch_b.has_rank = true;
  for (int d = 0; d + 2 < a.rank(); ++d) batch_a.dims.push_back(a.dims[d]);
  for (int d = 0; d + 2 < b.rank(); ++d) batch_b.dims.push_back(b.dims[d]);
  auto y = c.broadcast(batch_a, batch_b);
  if (!y) return invalid(absl::StrCat("the batches of A ", to_string(a), " and B ", to_string(b), " do not broadcast"));
  if (!row) y->dims.push_back(a.dims[a.rank() - 2]);
  if (!column) y->dims.push_back(b.dims.back());
  c.set(0, c.dtype(0), std::move(*y));
  c.by_formula();
  return absl::OkStatus();
}

StatusOr<std::vector<PackSpec>> prepare_matmul(const PrepareCtx& ctx) {
  const Tensor* b = ctx.constants[1];
  if (!b || b->dims.empty()) return std::vector<PackSpec>{};
  const size_t rank = b->dims.size();
  const int64_t k = rank == 1 ? b->dims[0] : b->dims[rank - 2], n = rank == 1 ? 1 : b->dims[rank - 1];
  int64_t matrices = 1;
  for (size_t d = 0; d + 2 < rank; ++d) matrices *= b->dims[d];
  return gemm_pack_spec(ctx.isa, 1, b->dtype, matrices, k, n, n, 1);
}

// Steps of one input along the batch dimensions of the output, in units of a matrix.
Dims batch_steps(std::span<const int64_t> batch, std::span<const int64_t> own) {
  Dims steps(batch.size(), 0);
  int64_t step = 1;
  for (size_t d = 0; d < own.size(); ++d) {
    const int64_t size = own[own.size() - 1 - d];
    if (size != 1) steps[batch.size() - 1 - d] = step;
    step *= size;
  }
  return steps;
}

bool sizes_known(const ChooseCtx& ctx) { return ctx.inputs[0].known && ctx.inputs[1].known && ctx.outputs[0].known; }

// Where B is a strided view: its matrices, of which those that repeat along a dim count once.
void set_strides_of_b(const Operand& b, GemmProblem* p) {
  const size_t own = b.dims.size() - std::min<size_t>(2, b.dims.size());
  if (b.strides.empty()) return;
  p->b_row = b.dims.size() == 1 ? b.strides[0] : b.strides[own];
  p->b_col = p->n == 1 ? 1 : b.strides[own + 1];
  p->b_steps.assign(b.strides.begin(), b.strides.begin() + static_cast<std::ptrdiff_t>(own));
  for (size_t d = 0; d < own; ++d) p->b_own.push_back(b.strides[d] == 0 ? 1 : b.dims[d]);
}

// The same of A. Without strides it is rows of k elements.
void set_strides_of_a(const Operand& a, std::span<const int64_t> own, GemmProblem* p) {
  if (a.strides.empty()) {
    p->a_batch = batch_steps(p->batch, own);
    for (int64_t& s : p->a_batch) s *= p->m * p->k;
    return;
  }
  p->a_col = a.strides.back();
  p->a_row = a.strides.size() == 1 ? 0 : a.strides[own.size()];
  p->a_batch.assign(p->batch.size(), 0);
  for (size_t d = 0; d < own.size(); ++d)
    if (own[d] != 1) p->a_batch[p->batch.size() - own.size() + d] = a.strides[d];
}

// From each row of A to the next over all batches, if all are as far apart.
std::optional<int64_t> even_rows(const GemmProblem& p) {
  int64_t step = p.a_row, rows = p.m;
  for (size_t d = p.batch.size(); d-- > 0; rows *= p.batch[d]) {
    if (p.batch[d] == 1) continue;
    if (rows == 1) step = p.a_batch[d];
    if (p.a_batch[d] != step * rows) return std::nullopt;
  }
  return step;
}

// Of known sizes.
StatusOr<GemmProblem> problem_of(const ChooseCtx& ctx, int bias, const kernels::Epilogue& epilogue) {
  const Operand &a = ctx.inputs[0], &b = ctx.inputs[1], &y = ctx.outputs[0];
  GemmProblem p;
  p.isa = ctx.isa;
  p.dtype = a.dtype;
  const bool row = a.dims.size() == 1, column = b.dims.size() == 1;
  p.k = a.dims.back();
  p.m = row ? 1 : a.dims[a.dims.size() - 2];
  p.n = column ? 1 : b.dims.back();
  p.a_row = p.k;
  p.b_row = p.n;
  p.b_packed = b.packed != nullptr;
  p.epilogue = epilogue;
  const auto own_a = a.dims.first(a.dims.size() - std::min<size_t>(2, a.dims.size()));
  const auto own_b = b.dims.first(b.dims.size() - std::min<size_t>(2, b.dims.size()));
  p.batch.assign(y.dims.begin(), y.dims.end() - (row ? 0 : 1) - (column ? 0 : 1));
  set_strides_of_b(b, &p);
  const std::span<const int64_t> matrices = b.strides.empty() ? own_b : std::span<const int64_t>(p.b_own);
  for (int64_t d : matrices) p.b_matrices *= d;
  p.b_batch = batch_steps(p.batch, matrices);
  set_strides_of_a(a, own_a, &p);
  const bool a_is_whole = std::equal(own_a.begin(), own_a.end(), p.batch.begin(), p.batch.end());
  if (const auto step = even_rows(p); step && p.b_matrices == 1 && a_is_whole) {
    // One B for every batch entry: A's batches are more rows of one product.
    for (int64_t d : p.batch) p.m *= d;
    p.a_row = *step;
    p.batch.clear();
    p.a_batch.clear();
    p.b_batch.clear();
  }
  if (bias >= 0) {
    p.addend = bias;
    p.z_elements = 1;
    for (int64_t d : ctx.inputs[bias].dims) p.z_elements *= d;
    if (p.z_elements != 1 && p.z_elements != p.n) return invalid("the bias must have one element a column of B");
    p.z_col = p.z_elements == 1 ? 0 : 1;
  }
  return p;
}

StatusOr<KernelFacts> choose_matmul(const ChooseCtx& ctx, int bias, const kernels::Epilogue& epilogue) {
  if (!sizes_known(ctx)) {
    KernelFacts facts;
    facts.kernel = "matmul";
    facts.reason = "shapes are known at run only";
    return facts;
  }
  ASSIGN_OR_RETURN(const GemmProblem p, problem_of(ctx, bias, epilogue));
  return choose_gemm(p, "matmul", ctx.cache);
}

Refit refit_matmul(const ChooseCtx& ctx, int bias, const kernels::Epilogue& epilogue, const Runnable& earlier) {
  if (!sizes_known(ctx)) return {};
  const StatusOr<GemmProblem> p = problem_of(ctx, bias, epilogue);
  return p.ok() ? refit_gemm(*p, earlier) : Refit();
}

}  // namespace

struct MatMulViews {
  bool takes_view(const PrepareCtx& ctx, int input, ViewUnit unit, int readers) const {
    return gemm_takes_view(ctx, input, unit, readers);
  }
};

struct MatMul : MatMulViews {
  static constexpr OpName name{"MatMul"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {kMatMulTypes, kMatMulTypes}};

  Status infer(InferCtx& c) const { return infer_matmul(c); }
  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& c) const { return prepare_matmul(c); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const { return choose_matmul(c, -1, {}); }
  Refit refit(const ChooseCtx& c, const Runnable& earlier) const { return refit_matmul(c, -1, {}, earlier); }
};
DEFINE_OP(MatMul)

// forethought.FusedMatMul(a, b, bias?): activation(a·b + bias); the bias has one element a column, or one in all.
struct FusedMatMul : MatMulViews {
  std::string activation;
  std::vector<float> activation_params;

  static constexpr OpName name{"FusedMatMul", "forethought"};
  static constexpr auto attrs = std::tuple{attr("activation", &FusedMatMul::activation),
                                           attr("activation_params", &FusedMatMul::activation_params)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 3, .in = {DType::kFloat, DType::kFloat, DType::kFloat}};

  Status init(const GraphNode&) const { return epilogue_of(activation, activation_params).status(); }
  Status infer(InferCtx& c) const {
    const SymShape& bias = c.shape(2);
    if (c.has_in(2) && bias.has_rank) {
      const Dim elements = bias.elements();
      const SymShape& b = c.shape(1);
      const Dim columns = b.has_rank && b.rank() > 1 ? b.dims.back() : b.has_rank ? Dim(1) : Dim();
      if (elements.is_known() && columns.is_known() && elements.value() != 1 && elements.value() != columns.value())
        return invalid(
            absl::StrCat("the bias ", to_string(bias), " must have one element a column of B ", to_string(b)));
    }
    return infer_matmul(c);
  }
  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& c) const { return prepare_matmul(c); }
  StatusOr<KernelFacts> choose(const ChooseCtx& c) const {
    ASSIGN_OR_RETURN(const kernels::Epilogue e, epilogue_of(activation, activation_params));
    return choose_matmul(c, bias(c), e);
  }
  Refit refit(const ChooseCtx& c, const Runnable& earlier) const {
    const auto e = epilogue_of(activation, activation_params);
    return e.ok() ? refit_matmul(c, bias(c), *e, earlier) : Refit();
  }

 private:
  static int bias(const ChooseCtx& c) { return c.inputs.size() > 2 && c.inputs[2].present ? 2 : -1; }
};
DEFINE_OP(FusedMatMul)

}  // namespace forethought
