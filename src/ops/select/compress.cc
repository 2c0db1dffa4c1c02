// Compress: the slices along an axis, or the elements, for which a condition holds.
#include <algorithm>

#include "ops/movement/moves.h"
#include "ops/op.h"
#include "ops/select/slices.h"

namespace forethought {

struct Compress {
  std::optional<int64_t> axis;

  static constexpr OpName name{"Compress"};
  static constexpr auto attrs = std::tuple{attr("axis", &Compress::axis)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kMoved, DType::kBool}};

  Status infer(InferCtx& c) const {
    const SymShape &in = c.shape(0), &condition = c.shape(1);
    if (condition.has_rank && condition.rank() != 1)
      return invalid(absl::StrCat("the condition is ", to_string(condition), "; it must have one dim"));
    if (!in.has_rank) return movement::set_moved(c, 0, axis ? SymShape() : SymShape(true, {Dim()}));
    SymShape out(true, {in.elements()});
    int at = 0;
    if (axis) {
      ASSIGN_OR_RETURN(at, c.axis(*axis, in.rank()));
      out = in;
    }
    Dim& taken = out.dims[static_cast<size_t>(at)];
    const SymValue* chosen = c.value(1);
    if (const auto n = taken.known(); n && chosen && !chosen->is_float &&
                                      std::ranges::all_of(chosen->ints, [](const Dim& d) { return d.is_known(); })) {
      int64_t count = 0;
      for (size_t i = 0; i < chosen->ints.size() && static_cast<int64_t>(i) < *n; ++i)
        count += chosen->ints[i].value() != 0;
      taken = count;
    } else {
      const Dim most = condition.has_rank ? min(condition.dims[0], taken) : Dim();
      taken = c.data_dim(0, at, most.is_unknown() ? taken : most);
    }
    return movement::set_moved(c, 0, std::move(out));
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts = default_facts(name, traits, ctx);
    facts.sized_at_run = movement::unknown_outputs(ctx);
    const int64_t places = ctx.inputs[1].known ? element_count(ctx.inputs[1].dims).value_or(0) : 0;
    facts.scratch_shared = static_cast<size_t>(places) * sizeof(int64_t);
    return facts;
  }

  Status run(RunCtx& c) const {
    const Arg &x = c.in(0), &condition = c.in(1);
    ASSIGN_OR_RETURN(const Slices s, slices_of(x, axis));
    if (c.scratch_shared < static_cast<size_t>(condition.elements) * sizeof(int64_t))
      return internal("there is too little scratch memory");
    auto* const picked = reinterpret_cast<int64_t*>(c.scratch());
    const auto* const chosen = condition.as<const uint8_t>();
    int64_t count = 0;
    for (int64_t i = 0; i < std::min(condition.elements, s.n); ++i)
      if (chosen[i]) picked[count++] = i;
    return take_slices(c, 0, x, s, {picked, static_cast<size_t>(count)});
  }
};
DEFINE_OP(Compress)

}  // namespace forethought
