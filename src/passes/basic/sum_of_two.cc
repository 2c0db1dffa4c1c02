// sum_of_two: Sum(a, b)  →  Add(a, b)
#include "passes/engine/rule.h"

namespace forethought::passes {
namespace {

Pattern pattern() { return op("Sum", {any("a"), any("b")}); }
Outcome rewrite(const Match& m) { return replace_root_with("Add", {m.id("a"), m.id("b")}); }

}  // namespace

DEFINE_FUSION(sum_of_two, pattern, rewrite)

}  // namespace forethought::passes
