// NonZero: the coordinates of the elements that are not zero, one column each, in row-major order.
#include <algorithm>

#include "kernels/select/select.h"
#include "ops/op.h"

namespace forethought {

struct NonZero {
  static constexpr OpName name{"NonZero"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.in = {kPlain}};
  static constexpr int64_t kGrain = 65536;  // elements of a block; each block counts, then writes its own columns

  static int64_t blocks(int64_t elements) { return (elements + kGrain - 1) / kGrain; }

  Status infer(InferCtx& c) const {
    SymShape out(true, {Dim::unknown(), Dim::unknown()});
    if (c.shape(0).has_rank) {
      out.dims[0] = c.shape(0).rank();
      out.dims[1] = c.data_dim(0, 1, c.shape(0).elements());
    }
    c.set(0, DType::kInt64, std::move(out));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.sized_at_run = 1;
    int64_t elements = 0;
    if (ctx.inputs[0].known) {
      elements = 1;
      for (int64_t d : ctx.inputs[0].dims) elements *= d;
    }
    facts.scratch_shared = static_cast<size_t>(blocks(elements)) * sizeof(int64_t);
    return facts;
  }

  Status run(RunCtx& c) const {
    const Arg& x = c.in(0);
    const int64_t n = blocks(x.elements);
    if (c.scratch_shared < static_cast<size_t>(n) * sizeof(int64_t))
      return internal("there is too little scratch memory");
    const auto edge = [&](int64_t b) { return std::min(b * kGrain, x.elements); };
    int64_t* first = reinterpret_cast<int64_t*>(c.scratch());  // of each block: its count, then its first column
    c.parallel_for(n,
                   [&](int64_t b, int) { first[b] = kernels::count_nonzero(x.dtype, x.data, edge(b), edge(b + 1)); });
    int64_t columns = 0;
    for (int64_t b = 0; b < n; ++b) columns += std::exchange(first[b], columns);
    const int64_t dims[] = {x.rank, columns};
    ASSIGN_OR_RETURN(void* out, c.host->output(0, dims));
    c.parallel_for(n, [&](int64_t b, int) {
      kernels::write_nonzero(x.dtype, x.data, x.dims(), edge(b), edge(b + 1), static_cast<int64_t*>(out), columns,
                             first[b]);
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(NonZero)

}  // namespace forethought
