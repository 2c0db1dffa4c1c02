// Unique: the elements, or slices along an axis, that differ; where each stands first, which each is, how often it is.
#include <algorithm>

#include "kernels/select/select.h"
#include "ops/movement/moves.h"
#include "ops/op.h"
#include "ops/select/slices.h"

namespace forethought {

struct Unique {
  std::optional<int64_t> axis;
  bool sorted = true;

  static constexpr OpName name{"Unique"};
  static constexpr auto attrs = std::tuple{attr("axis", &Unique::axis), attr("sorted", &Unique::sorted)};
  static constexpr Traits traits{.max_outputs = 4, .in = {kPlain}};
  enum Output { kValues, kFirst, kInverse, kCounts };  // in the operator's order
  static constexpr int64_t kRoom = sizeof(kernels::Ranked) + 2 * sizeof(int64_t) + sizeof(int64_t);  // of each slice

  Status infer(InferCtx& c) const {
    const SymShape& in = c.shape(0);
    SymShape values, places(true, {Dim()}), all(true, {Dim()});
    if (in.has_rank) {
      int at = 0;
      if (axis) {
        ASSIGN_OR_RETURN(at, c.axis(*axis, in.rank()));
      }
      const Dim n = axis ? in.dims[static_cast<size_t>(at)] : in.elements();
      int named = 0;  // one name for the dim of all outputs that have it
      while (named < c.outputs() && (named == kInverse || !c.wants_out(named))) ++named;
      const Dim found = n == 0 || n == 1 ? n : c.data_dim(named, at, n);
      all.dims[0] = n;
      places.dims[0] = found;
      values = axis ? in : places;
      if (axis) values.dims[static_cast<size_t>(at)] = found;
    } else if (!axis) {
      values = places;
    }
    c.set(kValues, c.dtype(0), std::move(values));
    c.set(kFirst, DType::kInt64, places);
    c.set(kInverse, DType::kInt64, all);
    c.set(kCounts, DType::kInt64, places);
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.sized_at_run = movement::unknown_outputs(ctx);
    const std::span<const int64_t> dims = ctx.inputs[0].dims;
    const auto rank = static_cast<int64_t>(dims.size());
    const int64_t at = !axis ? 0 : *axis < 0 ? *axis + rank : *axis;
    const int64_t n = axis && at >= 0 && at < rank ? dims[static_cast<size_t>(at)] : element_count(dims).value_or(0);
    facts.scratch_shared = static_cast<size_t>(n * kRoom);
    return facts;
  }

  Status run(RunCtx& c) const {
    const Arg& x = c.in(0);
    ASSIGN_OR_RETURN(const Slices s, slices_of(x, axis));
    const int64_t n = s.n;
    if (c.scratch_shared < static_cast<size_t>(n * kRoom)) return internal("there is too little scratch memory");
    auto* const found = reinterpret_cast<kernels::Ranked*>(c.scratch());
    auto* const place = reinterpret_cast<int64_t*>(found + n);
    int64_t* const first = place + 2 * n;
    const int64_t count = kernels::find_unique(x.dtype, x.data, s.outer, n, s.inner, sorted,
                                               {found, static_cast<size_t>(n)}, place, place + n);
    for (int64_t g = 0; g < count; ++g) first[g] = found[g].index;
    if (c.has_out(kValues)) RETURN_IF_ERROR(take_slices(c, kValues, x, s, {first, static_cast<size_t>(count)}));
    RETURN_IF_ERROR(give(c, kFirst, count, [&](int64_t g) { return first[g]; }));
    RETURN_IF_ERROR(give(c, kInverse, n, [&](int64_t i) { return place[i]; }));
    return give(c, kCounts, count, [&](int64_t g) { return static_cast<int64_t>(found[g].key); });
  }

 private:
  template <typename F>
  static Status give(RunCtx& c, int slot, int64_t n, F&& element) {
    if (!c.has_out(slot)) return absl::OkStatus();
    const int64_t dims[] = {n};
    ASSIGN_OR_RETURN(void* out, c.host->output(slot, dims));
    for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(out)[i] = element(i);
    return absl::OkStatus();
  }
};
DEFINE_OP(Unique)

}  // namespace forethought
