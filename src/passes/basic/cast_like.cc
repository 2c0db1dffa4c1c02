// cast_like: CastLike becomes the Cast that its second input's type asks for, so that nobody waits for that input.
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Outcome attempt(const RuleCtx& c) {
  if (!c.has_in(0) || !c.has_in(1) || !c.in(1).type.is_tensor()) return no_match();
  Attributes a = c.node().attributes;
  a.set("to", static_cast<int64_t>(c.in(1).type.dtype()));
  return replace_root_with("Cast", {c.node().inputs[0]}, std::move(a));
}

}  // namespace

DEFINE_RULE(cast_like, attempt, "CastLike")

}  // namespace forethought::passes
