// GatherND: blocks of the data that rows of indices name, behind batch dims that both share.
#include <algorithm>

#include "kernels/movement/gather_points.h"
#include "ops/movement/moves.h"

namespace forethought {

struct GatherND {
  int64_t batch_dims = 0;

  static constexpr OpName name{"GatherND"};
  static constexpr auto attrs = std::tuple{attr("batch_dims", &GatherND::batch_dims)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, DType::kInt64}};
  static constexpr int64_t kGrain = 64 * 1024;  // elements worth a block

  Status init(const GraphNode&) {
    return batch_dims >= 0 ? absl::OkStatus() : invalid(absl::StrCat("batch_dims is ", batch_dims));
  }

  Status infer(InferCtx& c) const {
    const SymShape &data = c.shape(0), &indices = c.shape(1);
    if (!data.has_rank || !indices.has_rank) return movement::set_moved(c, 0, {});
    if (indices.rank() < 1 || batch_dims >= std::min(data.rank(), indices.rank()))
      return invalid(absl::StrCat("the data is ", to_string(data), " and the indices ", to_string(indices),
                                  "; both need more dims than batch_dims, which is ", batch_dims));
    for (int64_t d = 0; d < batch_dims; ++d) {
      const auto a = data.dims[static_cast<size_t>(d)].known(), b = indices.dims[static_cast<size_t>(d)].known();
      if (a && b && *a != *b)
        return invalid(absl::StrCat("batch dim ", d, " is ", *a, " of the data and ", *b, " of the indices"));
    }
    const auto depth = indices.dims.back().known();
    if (!depth) return movement::set_moved(c, 0, {});
    if (*depth > data.rank() - batch_dims)
      return invalid(absl::StrCat("each index has ", *depth, " places, but the data is ", to_string(data),
                                  batch_dims > 0 ? absl::StrCat(" with ", batch_dims, " batch dims") : ""));
    SymShape out(true, {});
    out.dims.assign(indices.dims.begin(), indices.dims.end() - 1);
    out.dims.insert(out.dims.end(), data.dims.begin() + batch_dims + *depth, data.dims.end());
    return movement::set_moved(c, 0, std::move(out));
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
    return default_facts(name, traits, ctx);
  }

  Status run(RunCtx& c) const {
    const Arg &data = c.in(0), &indices = c.in(1);
    const auto batches = static_cast<int>(batch_dims);
    const auto depth = static_cast<int>(indices.dim(-1));
    for (int d = 0; d < batches; ++d)
      if (data.dim(d) != indices.dim(d))
        return invalid(
            absl::StrCat("batch dim ", d, " is ", data.dim(d), " of the data and ", indices.dim(d), " of the indices"));
    kernels::PointShape s;
    s.dims = data.dims().subspan(static_cast<size_t>(batches), static_cast<size_t>(depth));
    s.rows = 1;
    for (int d = 0; d + 1 < indices.rank; ++d) {
      s.rows *= indices.dim(d);
      if (d >= batches) s.rows_per_batch *= indices.dim(d);
    }
    for (int d = batches + depth; d < data.rank; ++d) s.inner *= data.dim(d);
    s.batch_pitch = s.inner;
    for (int64_t d : s.dims) s.batch_pitch *= d;
    const auto* const list = indices.as<const int64_t>();
    if (const int64_t bad = kernels::first_bad_point(s, list); bad >= 0)
      return invalid(absl::StrCat("index ", list[bad], " (element ", bad, " of input 1) is outside axis ",
                                  batches + bad % depth, " of ", to_string(data.dims())));
    if (s.inner == 0) return absl::OkStatus();
    parallel_ranges(c, s.rows, std::max<int64_t>(1, kGrain / s.inner), [&](int64_t begin, int64_t end, int) {
      kernels::gather_points(kernels::element_of(data.dtype), s, data.data, list, c.out(0).data, begin, end);
    });
    return absl::OkStatus();
  }
};
DEFINE_OP(GatherND)

}  // namespace forethought
