// ConstantOfShape: a tensor of a given shape, filled with one value (f32 zero unless said).
#include "kernels/movement/fill.h"
#include "ops/movement/moves.h"

namespace forethought {

struct ConstantOfShape {
  std::optional<Tensor> value;
  static constexpr OpName name{"ConstantOfShape"};
  static constexpr auto attrs = std::tuple{attr("value", &ConstantOfShape::value)};
  static constexpr Traits traits{.in = {DType::kInt64}};

  Status init(const GraphNode&) const {
    if (value && (value->elements() != 1 || !movement::kMoved.contains(value->dtype)))
      return invalid(absl::StrCat("attribute 'value' is ", to_string(value->dims), " of ",
                                  forethought::name(value->dtype), "; it must hold one element of ",
                                  to_string(movement::kMoved)));
    return absl::OkStatus();
  }
  Status infer(InferCtx& c) const;
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    if (auto facts = movement::sized_at_run(*this, ctx)) return *std::move(facts);
    return default_facts(name, traits, ctx);
  }
  Status run(RunCtx& c) const {
    static constexpr float kZero = 0;
    const void* from = value ? value->data : &kZero;
    const kernels::Element e = kernels::element_of(dtype());
    parallel_ranges(c, c.out(0).elements, kernels::kFillGrain,
                    [&](int64_t begin, int64_t end, int) { kernels::fill(e, from, c.out(0).data, begin, end); });
    return absl::OkStatus();
  }

 private:
  DType dtype() const { return value ? value->dtype : DType::kFloat; }
};
DEFINE_OP(ConstantOfShape)

Status ConstantOfShape::infer(InferCtx& c) const {
  RETURN_IF_ERROR(c.require(0, DType::kInt64, "shape"));
  if (c.shape(0).has_rank && c.shape(0).rank() != 1)
    return invalid(absl::StrCat("the shape input is ", to_string(c.shape(0)), "; it must have one dim"));
  SymShape out;
  if (const SymValue* v = c.value(0); v && !v->is_float) {
    out.has_rank = true;
    for (const Dim& d : v->ints) {
      if (d.is_known() && d.value() < 0) return invalid(absl::StrCat("the shape to make has a ", d.value()));
      out.dims.push_back(d);
    }
    c.by_formula();
  } else if (const auto n = movement::length_of(c, 0); n && *n <= static_cast<int64_t>(kMaxPropagated)) {
    out = SymShape(true, absl::InlinedVector<Dim, 6>(static_cast<size_t>(*n)));
  }
  if (const auto numbers = out.numbers(); numbers && !element_count(*numbers))
    return invalid(absl::StrCat("the shape ", to_string(out), " has more elements than can be counted"));
  const auto n = out.elements().known();
  if (n && *n <= static_cast<int64_t>(kMaxPropagated)) {
    SymValue one{.ints = {Dim(0)}};
    if (value) {
      if (auto decoded = decode_value(*value))
        one = *std::move(decoded);
      else
        one.ints.clear();
    } else {
      one = SymValue{.is_float = true, .floats = {0.0}};
    }
    if (one.size() == 1) {
      SymValue filled;
      filled.is_float = one.is_float;
      if (one.is_float)
        filled.floats.assign(static_cast<size_t>(*n), one.floats[0]);
      else
        filled.ints.assign(static_cast<size_t>(*n), one.ints[0]);
      c.set_value(0, std::move(filled));
    }
  }
  c.set(0, dtype(), std::move(out));
  return absl::OkStatus();
}

}  // namespace forethought
