// remove_no_ops: operators that give their input as it is, bit for bit.
#include <algorithm>

#include "passes/engine/constants.h"
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

// The same dims for sure, and none unknown.
bool keeps_shape(const RuleCtx& c) {
  const SymShape &in = c.in(0).shape, &out = c.out().shape;
  if (!in.has_rank || !out.has_rank || in.rank() != out.rank()) return false;
  for (int d = 0; d < in.rank(); ++d)
    if (!in.dims[d].same(out.dims[d])) return false;
  return true;
}

bool all_ints(const Tensor* t, int64_t value) {
  const auto v = t ? int_elements(*t) : std::nullopt;
  return v && std::all_of(v->begin(), v->end(), [&](int64_t e) { return e == value; });
}

Outcome same_as_input(const RuleCtx& c) { return replace_root_by(c.node().inputs[0]); }

Outcome dropout(const RuleCtx& c) {
  if (c.has_in(2)) {
    const Tensor* training = c.constant(2);
    if (!training) return decline("training_mode is known only at run");
    if (number_at(*training, 0).value_or(1) != 0) return decline("training_mode is on");
  }
  return same_as_input(c);  // the engine keeps it if the mask is read
}

Outcome cast(const RuleCtx& c) {
  if (!c.in(0).type.is_tensor() || !(c.in(0).type == c.out().type)) return no_match();
  return same_as_input(c);
}

Outcome same_elements(const RuleCtx& c) { return keeps_shape(c) ? same_as_input(c) : no_match(); }

Outcome slice(const RuleCtx& c) {
  if (!keeps_shape(c)) return no_match();
  if (c.has_in(4)) {
    const auto steps = c.constant(4) ? int_elements(*c.constant(4)) : std::nullopt;
    if (!steps) return decline("the steps are known only at run");
    if (std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s < 1; })) return no_match();
  }
  return same_as_input(c);
}

Outcome pad(const RuleCtx& c) { return all_ints(c.constant(1), 0) ? same_as_input(c) : no_match(); }
Outcome tile(const RuleCtx& c) { return all_ints(c.constant(1), 1) ? same_as_input(c) : no_match(); }

Outcome transpose(const RuleCtx& c) {
  const auto* perm = c.node().attributes.get_ints("perm");
  if (!perm) return c.in(0).shape.has_rank && c.in(0).shape.rank() <= 1 ? same_as_input(c) : no_match();
  for (size_t i = 0; i < perm->size(); ++i)
    if ((*perm)[i] != static_cast<int64_t>(i)) return no_match();
  return same_as_input(c);
}

Outcome single_input(const RuleCtx& c) { return c.node().formal_inputs() == 1 ? same_as_input(c) : no_match(); }

// x + c, c + x, x - c, x * c, c * x, x / c with a constant that changes no x.
Outcome neutral(const RuleCtx& c) {
  const std::string& type = c.node().op.type;
  const bool sum = type == "Add" || type == "Sub";
  for (int side : {1, 0}) {
    const Tensor* t = c.constant(side);
    if (!t || (side == 0 && (type == "Sub" || type == "Div"))) continue;
    // -0.0 + 0.0 is 0.0: only -0.0 leaves every float as it is; and only +0.0 when subtracted.
    const double unit = sum ? (type == "Add" && is_floating(t->dtype) ? -0.0 : 0.0) : 1.0;
    if (!all_equal(*t, unit)) {
      if (type == "Add" && is_floating(t->dtype) && all_equal(*t, 0.0)) return decline("-0.0 + 0 is +0.0");
      continue;
    }
    const GraphValue& x = c.in(1 - side);
    const SymShape& y = c.out().shape;
    if (!x.shape.has_rank || !y.has_rank || !x.shape.same(y)) return decline("the constant broadcasts '", x.name, "'");
    return replace_root_by(c.node().inputs[1 - side]);
  }
  return no_match();
}

Outcome attempt(const RuleCtx& c) {
  using Check = Outcome (*)(const RuleCtx&);
  static const std::pair<std::string_view, Check> kChecks[] = {{"Identity", same_as_input},
                                                               {"Dropout", dropout},
                                                               {"Cast", cast},
                                                               {"Reshape", same_elements},
                                                               {"Flatten", same_elements},
                                                               {"Squeeze", same_elements},
                                                               {"Expand", same_elements},
                                                               {"Unsqueeze", same_elements},
                                                               {"Slice", slice},
                                                               {"Pad", pad},
                                                               {"Tile", tile},
                                                               {"Transpose", transpose},
                                                               {"Concat", single_input},
                                                               {"Sum", single_input},
                                                               {"Max", single_input},
                                                               {"Min", single_input},
                                                               {"Add", neutral},
                                                               {"Sub", neutral},
                                                               {"Mul", neutral},
                                                               {"Div", neutral}};
  for (const auto& [type, check] : kChecks)
    if (c.node().op.is(type)) return check(c);
  return no_match();
}

}  // namespace

DEFINE_RULE(remove_no_ops, attempt, "Identity", "Dropout", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze",
            "Expand", "Slice", "Pad", "Tile", "Transpose", "Concat", "Sum", "Max", "Min", "Add", "Sub", "Mul", "Div")

}  // namespace forethought::passes
