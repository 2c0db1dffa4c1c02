// TopK: the k largest or smallest elements along an axis and where they stand, best first.
#include <algorithm>

#include "kernels/select/select.h"
#include "ops/movement/moves.h"
#include "ops/op.h"
#include "ops/select/slices.h"

namespace forethought {

struct TopK {
  int64_t axis = -1;
  bool largest = true;
  bool sorted = true;  // an order is no harm to who asks for none

  static constexpr OpName name{"TopK"};
  static constexpr auto attrs =
      std::tuple{attr("axis", &TopK::axis), attr("largest", &TopK::largest), attr("sorted", &TopK::sorted)};
  static constexpr Traits traits{
      .min_inputs = 2, .max_inputs = 2, .min_outputs = 1, .max_outputs = 2, .in = {kNumbers, DType::kInt64}};
  static constexpr int64_t kGrain = 16384;  // elements a block ranks at least

  Status infer(InferCtx& c) const {
    const SymShape& k_shape = c.shape(1);
    if (k_shape.has_rank && k_shape.elements().known().value_or(1) != 1)
      return invalid(absl::StrCat("K is ", to_string(k_shape), "; it must have one element"));
    SymShape out = c.shape(0);
    if (out.has_rank) {
      ASSIGN_OR_RETURN(const int at, c.axis(axis, out.rank()));
      Dim& d = out.dims[static_cast<size_t>(at)];
      const SymValue* wanted = c.value(1);
      const Dim k = wanted && !wanted->is_float && wanted->ints.size() == 1 ? wanted->ints[0] : Dim();
      RETURN_IF_ERROR(check(k, d));
      d = k.is_unknown() ? c.data_dim(c.wants_out(0) ? 0 : 1, at, d) : k;
    }
    if (c.outputs() > 1) c.set(1, DType::kInt64, out);
    c.set(0, c.dtype(0), std::move(out));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.sized_at_run = movement::unknown_outputs(ctx);
    const std::span<const int64_t> dims = ctx.inputs[0].dims;
    const auto rank = static_cast<int64_t>(dims.size());
    const int64_t at = axis < 0 ? axis + rank : axis;
    const int64_t n = at >= 0 && at < rank ? dims[static_cast<size_t>(at)] : 0;
    facts.scratch_per_worker = static_cast<size_t>(n) * sizeof(kernels::Ranked);
    // Where only one of them is wanted, the other is made and forgotten.
    const bool one = ctx.outputs.size() < 2 || !ctx.outputs[0].present || !ctx.outputs[1].present;
    if (one) facts.scratch_shared = static_cast<size_t>(element_count(dims).value_or(0)) * sizeof(int64_t);
    return facts;
  }

  Status run(RunCtx& c) const {
    const Arg &x = c.in(0), &wanted = c.in(1);
    ASSIGN_OR_RETURN(const Slices s, slices_of(x, axis));
    if (wanted.elements != 1) return invalid(absl::StrCat("K has ", wanted.elements, " elements; it must have one"));
    const int64_t k = *wanted.as<const int64_t>(), n = s.n;
    RETURN_IF_ERROR(check(k, n));
    Dims dims(x.dims().begin(), x.dims().end());
    dims[static_cast<size_t>(*s.axis)] = k;
    void* made[2] = {};
    for (int i = 0; i < 2; ++i) {
      if (c.has_out(i)) {
        ASSIGN_OR_RETURN(made[i], c.host->output(i, dims));
      } else {
        made[i] = c.scratch();
      }
    }
    if (k == 0) return absl::OkStatus();
    if (c.scratch_per_worker < static_cast<size_t>(n) * sizeof(kernels::Ranked))
      return internal("there is too little scratch memory");
    parallel_ranges(c, s.outer * s.inner, std::max<int64_t>(1, kGrain / n),
                    [&](int64_t begin, int64_t end, int worker) {
                      auto* const room = reinterpret_cast<kernels::Ranked*>(c.worker_scratch(worker));
                      kernels::top_k(x.dtype, largest, x.data, n, s.inner, k, made[0], static_cast<int64_t*>(made[1]),
                                     begin, end, {room, static_cast<size_t>(n)});
                    });
    return absl::OkStatus();
  }

 private:
  static Status check(const Dim& k, const Dim& n) {
    if (k.is_known() && k.value() < 0) return invalid(absl::StrCat("K is ", k.value(), "; it must not be negative"));
    if (k.is_known() && n.is_known() && k.value() > n.value())
      return invalid(absl::StrCat("K is ", k.value(), ", but the axis has ", n.value(), " elements"));
    return absl::OkStatus();
  }
};
DEFINE_OP(TopK)

}  // namespace forethought
