// What ReduceSum, ReduceMean, ReduceMax and ReduceMin share: attributes, shape rule, split of the work.
#include "ops/reduce/reduce_operator.h"

#include <algorithm>
#include <cstring>

namespace forethought {
namespace {

using kernels::ReduceKind;
using kernels::Reduction;

constexpr int64_t kGrain = 32768;  // elements a block reads at least
constexpr int64_t kMaxRank = 64;   // of tensors that are reduced; bounds the mask on the stack

// Marks the reduced axes. Without axes: all of them, or none if the node says so.
Status mark_axes(std::span<const int64_t> axes, bool noop, int rank, std::span<bool> mask) {
  std::fill(mask.begin(), mask.end(), axes.empty() && !noop);
  for (int64_t a : axes) {
    if (a < -rank || a >= rank)
      return invalid(absl::StrCat("axis ", a, " is outside [", -rank, ", ", rank - 1, "] of a tensor of rank ", rank));
    bool& m = mask[static_cast<size_t>(a < 0 ? a + rank : a)];
    if (m) return invalid(absl::StrCat("axis ", a, " is named twice in axes"));
    m = true;
  }
  return absl::OkStatus();
}

// Sums and extremes of small integer vectors, as far as they are known: shapes are computed with them.
void follow_value(InferCtx& c, ReduceKind kind, bool all_axes) {
  const SymValue* v = c.value(0);
  if (!v || v->is_float || kind == ReduceKind::mean || c.dtype(0) != DType::kInt64 || v->ints.empty() || !all_axes)
    return;
  Dim acc = v->ints[0];
  for (size_t i = 1; i < v->ints.size(); ++i) {
    const Dim& d = v->ints[i];
    acc = kind == ReduceKind::sum ? acc + d : kind == ReduceKind::max ? max(acc, d) : min(acc, d);
  }
  SymValue out;
  out.ints.push_back(acc);
  c.set_value(0, std::move(out));
}

}  // namespace

bool ReduceOperator::accepts(LayoutQuery& q) const {
  const SymShape &in = *q.input_shapes[0], &out = *q.output_shapes[0];
  if (!keepdims || !in.has_rank || !out.has_rank || in.rank() < 3 || out.rank() != in.rank()) return false;
  for (size_t i = 1; i < q.inputs.size(); ++i)
    if (q.input_types[i] && !q.inputs[i].is_plain()) return false;
  for (int i = 0; i < in.rank(); ++i)
    if (i < 2 ? !out.dims[i].same(in.dims[i]) : !(out.dims[i] == 1)) return false;
  q.outputs[0] = q.inputs[0];
  return true;
}

Status ReduceOperator::infer_reduce(InferCtx& c, ReduceKind kind) const {
  const SymShape& in = c.shape(0);
  const DType dtype = c.dtype(0);
  if (!in.has_rank) {
    c.set(0, dtype, SymShape::unknown());
    return absl::OkStatus();
  }
  const int rank = in.rank();
  if (rank > kMaxRank) return unsupported(absl::StrCat("reduces a tensor of rank ", rank, "; at most ", kMaxRank));
  if (c.has_in(1) && c.shape(1).has_rank && c.shape(1).rank() != 1)
    return invalid(absl::StrCat("axes have rank ", c.shape(1).rank(), ", not 1"));
  std::optional<std::vector<int64_t>> axes = c.has_in(1) ? c.ints(1) : std::vector<int64_t>{};
  if (!axes) {
    // Known is at most how many axes go.
    SymShape out;
    const bool count_known = c.shape(1).has_rank && c.shape(1).dims[0].is_known() && c.shape(1).dims[0].value() > 0;
    const int64_t kept = keepdims ? rank : count_known ? rank - c.shape(1).dims[0].value() : 0;
    if (kept < 0) return invalid(absl::StrCat("has more axes than the tensor, of rank ", rank));
    if (keepdims || count_known) out = SymShape(true, absl::InlinedVector<Dim, 6>(static_cast<size_t>(kept)));
    c.set(0, dtype, std::move(out));
    return absl::OkStatus();
  }
  bool mask[kMaxRank];
  RETURN_IF_ERROR(mark_axes(*axes, noop_with_empty_axes, rank, {mask, static_cast<size_t>(rank)}));
  SymShape out = SymShape::scalar();
  for (int i = 0; i < rank; ++i) {
    if (!mask[i]) {
      out.dims.push_back(in.dims[i]);
    } else if (keepdims) {
      out.dims.push_back(1);
    }
  }
  c.set(0, dtype, std::move(out));
  follow_value(c, kind, std::all_of(mask, mask + rank, [](bool m) { return m; }));
  c.by_formula();
  return absl::OkStatus();
}

Status ReduceOperator::run_reduce(RunCtx& c, ReduceKind kind) const {
  const Arg& in = c.in(0);
  if (in.rank > kMaxRank) return unsupported("reduces a tensor of too high a rank");
  int64_t dims[kMaxRank + 2];
  bool mask[kMaxRank + 2];
  size_t rank = static_cast<size_t>(in.rank);
  std::copy_n(in.dims_data, rank, dims);
  const Layout layout = in.layout;
  if (layout.is_plain()) {
    const std::span<const int64_t> axes =
        c.has_in(1) ? std::span<const int64_t>(c.in_as<int64_t>(1), static_cast<size_t>(c.in(1).elements))
                    : std::span<const int64_t>();
    RETURN_IF_ERROR(mark_axes(axes, noop_with_empty_axes, in.rank, {mask, rank}));
  } else {
    // accepts(): N and C are kept, or their size is 1, and the rest is reduced.
    std::fill(mask, mask + rank + 1, true);
    mask[0] = false;
    if (layout.is_blocked()) {
      mask[1] = mask[rank] = false;
      dims[1] = (dims[1] + layout.block - 1) / layout.block;
      dims[rank++] = layout.block;
    } else {
      mask[rank - 1] = false;
      std::rotate(dims + 1, dims + 2, dims + rank);
    }
  }
  const Reduction r = kernels::make_reduction({dims, rank}, {mask, rank});
  // Neighbouring results of one row of columns come from the same cache lines, so a block takes at least 32 of them.
  const int64_t grain = std::max({kGrain / std::max<int64_t>(r.count, 1), std::min<int64_t>(r.inner, 32), int64_t{1}});
  const Isa isa = active_isa();
  parallel_ranges(c, r.outputs, grain, [&](int64_t begin, int64_t end, int) {
    kernels::reduce(isa, kind, in.dtype, r, in.data, c.out(0).data, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace forethought
