// Reshape: the same elements under other dims; 0 keeps a dim (unless allowzero), one -1 takes what is left.
#include "ops/movement/moves.h"

namespace forethought {

struct Reshape : movement::HandsViewOn {
  bool allowzero = false;
  static constexpr OpName name{"Reshape"};
  static constexpr auto attrs = std::tuple{attr("allowzero", &Reshape::allowzero)};
  static constexpr Traits traits{.min_inputs = 2, .max_inputs = 2, .in = {movement::kKept, DType::kInt64}};
  static constexpr uint32_t kContents = 0;

  Status infer(InferCtx& c) const;
  StatusOr<movement::Moves> moves(const movement::View& v) const {
    if (v.in[0].elements() != v.out[0].elements())
      return invalid(absl::StrCat("cannot reshape ", to_string(v.in[0].dims), " to ", to_string(v.out[0].dims)));
    return movement::Moves{movement::whole(v, 0, 0)};
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const { return movement::choose_moves(*this, ctx); }
  Refit refit(const ChooseCtx& ctx, const Runnable& earlier) const {
    return movement::refit_moves(*this, ctx, earlier);
  }
  Status run(RunCtx& ctx) const { return movement::move_now(*this, ctx); }

 private:
  // `proved`: that there are as many elements as before follows from the formulas of the dims.
  StatusOr<SymShape> target(const SymShape& in, const SymValue& wanted, bool* proved) const;
};
DEFINE_OP(Reshape)

StatusOr<SymShape> Reshape::target(const SymShape& in, const SymValue& wanted, bool* proved) const {
  SymShape out(true, {});
  int minus_one = -1, open = -1;  // the dim given as -1; the last dim of which nothing is known
  int unknown = 0;                // how many there are of both
  Dim product = 1;                // of all others
  for (int i = 0; i < static_cast<int>(wanted.ints.size()); ++i) {
    Dim d = wanted.ints[i];
    if (d.is_known() && d.value() < -1) return invalid(absl::StrCat("the new shape has ", d.value(), " at ", i));
    if (d == -1) {
      if (minus_one >= 0) return invalid(absl::StrCat("the new shape has -1 at both ", minus_one, " and ", i));
      minus_one = i;
      d = Dim();
    } else if (d == 0 && !allowzero) {
      if (in.has_rank && i >= in.rank())
        return invalid(absl::StrCat("the new shape keeps dim ", i, " (by a 0), but the input is ", to_string(in)));
      d = in.has_rank ? in.dims[i] : Dim();
    }
    if (d.is_unknown()) {
      ++unknown;
      open = i;
    } else {
      product = product * d;
    }
    out.dims.push_back(d);
  }
  const Dim total = in.elements();
  if (unknown == 1) {
    if (product == 0 && minus_one >= 0)
      return invalid("the new shape has a -1 beside a dim of 0, which leaves it undecided");
    const Dim left = floor_div(total, product);
    if (total.is_known() && product.is_known() && !(left * product == total.value()))
      return invalid(absl::StrCat("cannot reshape ", to_string(in), ": its ", total.value(),
                                  " elements are no multiple of ", to_string(product)));
    // A dim that the contents give is theirs to say, even where only one number would do: a wrong one is an error.
    if (open == minus_one) {
      out.dims[open] = left;
      *proved = (left * product).same(total);
    }
  } else if (unknown == 0 && total.is_known() && out.is_known() && !(product == total.value())) {
    return invalid(
        absl::StrCat("cannot reshape ", to_string(in), " to ", to_string(out), ": the numbers of elements differ"));
  } else {
    *proved = unknown == 0 && product.same(total);
  }
  return out;
}

Status Reshape::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(1, DType::kInt64, "shape"));
  const SymShape& spec = c.shape(1);
  if (spec.has_rank && spec.rank() != 1)
    return invalid(absl::StrCat("the shape input is ", to_string(spec), "; it must have one dim"));
  SymShape out;
  if (const SymValue* wanted = c.value(1); wanted && !wanted->is_float) {
    bool proved = false;
    ASSIGN_OR_RETURN(out, target(c.shape(0), *wanted, &proved));
    if (proved) c.by_formula();
  } else if (const auto rank = movement::length_of(c, 1); rank && *rank <= static_cast<int64_t>(kMaxPropagated)) {
    out = SymShape(true, absl::InlinedVector<Dim, 6>(static_cast<size_t>(*rank)));
    if (*rank == 0) out.dims.clear();
  }
  movement::keep_value(c);
  return movement::set_moved(c, 0, std::move(out));
}

}  // namespace forethought
