#include "ops/pool/pool_op.h"

#include <algorithm>

#include "kernels/onednn/onednn.h"

namespace forethought {

Status PoolBase::init(const GraphNode&) const {
  if (kernel_shape.empty()) return invalid("attribute 'kernel_shape' is empty");
  return check();
}

Status PoolBase::infer_output(InferCtx& c, int out, DType dtype) const {
  const SymShape& x = c.shape(0);
  const int rank = static_cast<int>(kernel_shape.size());
  if (x.has_rank && x.rank() != rank + 2)
    return invalid(absl::StrCat("the input is ", to_string(x), "; attribute 'kernel_shape' has ", rank,
                                " entries, so it must have rank ", rank + 2));
  absl::InlinedVector<Dim, 6> in(rank), kernel;
  for (int d = 0; d < rank; ++d) {
    if (x.has_rank) in[d] = x.dims[d + 2];
    kernel.push_back(Dim(kernel_shape[d]));
  }
  ASSIGN_OR_RETURN(const auto spatial, output_dims(in, kernel, ceil_mode));
  SymShape y;
  y.has_rank = true;
  y.dims.push_back(x.has_rank ? x.dims[0] : Dim());
  y.dims.push_back(x.has_rank ? x.dims[1] : Dim());
  y.dims.insert(y.dims.end(), spatial.begin(), spatial.end());
  c.set(out, dtype, std::move(y));
  if (!ceil_mode) c.by_formula();  // a kernel that does not fit leaves no position
  return absl::OkStatus();
}

StatusOr<int64_t> pool_lanes(Layout layout, DType dtype) {
  if (layout.is_plain()) return 1;
  if (layout.is_blocked() && dtype == DType::kFloat && (layout.block == 8 || layout.block == 16)) return layout.block;
  return unsupported(absl::StrCat("pooling takes plain channels, or blocked ones in f32, not ", to_string(layout),
                                  " in ", name(dtype)));
}

bool pool_accepts(LayoutQuery& q, bool plain_output) {
  if (active_isa() == Isa::scalar || q.outputs.size() != 1 || !q.input_types[0]->is_tensor() ||
      q.input_types[0]->dtype() != DType::kFloat || q.inputs[0] != Layout::blocked(q.block) ||
      (q.block != 8 && q.block != 16))
    return false;
  q.outputs[0] = plain_output ? Layout::plain() : q.inputs[0];
  return true;
}

int64_t pool_grain(int64_t elements_per_plane) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, elements_per_plane));
}

}  // namespace forethought
