// Prints docs/operators.md: every operator of the list with its newest schema version and the types it takes.

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/schema/schema.h"
#include "ops/op.h"

namespace forethought {
namespace {

constexpr struct {
  const char* name;
  TypeSet types;
} kGroups[] = {{"plain", kPlain},
               {"fixed", kFixedWidth},
               {"numbers", kNumbers},
               {"floats", kFloats},
               {"ints", kInts},
               {"signed", kSignedInts},
               {"unsigned", kUnsignedInts},
               {"indices", kIndices},
               {"complex", DType::kComplex64 | DType::kComplex128},
               {"float8", TypeSet(DType::kFloat8E4M3FN) | DType::kFloat8E4M3FNUZ | DType::kFloat8E5M2 |
                              DType::kFloat8E5M2FNUZ | DType::kFloat8E8M0},
               {"sub-byte", TypeSet(DType::kUint4) | DType::kInt4 | DType::kUint2 | DType::kInt2 | DType::kFloat4E2M1}};

// The set in as few words as the groups above allow; `of` is what there could be.
std::string words(TypeSet set) {
  std::vector<std::string> found;
  for (const auto& g : kGroups) {
    if ((set.mask & g.types.mask) != g.types.mask) continue;
    found.push_back(g.name);
    set.mask &= ~g.types.mask;
  }
  if (const std::string rest = to_string(set); !rest.empty()) found.push_back(rest);
  if (set.mask >> kDTypeCount) found.push_back("newer");
  return absl::StrJoin(found, ", ");
}

// The allowed types of each formal input, and those that the newest schema allows beyond them.
struct Types {
  std::string taken, missing;
};
Types types_of(const OpDef& def, const OpSchema* schema) {
  Types t;
  uint32_t missing = 0;
  std::vector<std::pair<std::string, std::string>> taken;  // inputs of equal types together
  for (int i = 0; i < static_cast<int>(def.traits.in.size()); ++i) {
    const TypeSet set = def.traits.in[i];
    if (!set.mask) continue;
    const FormalParam* formal = schema ? schema->input(i) : nullptr;
    const std::string name = formal ? std::string(formal->name) : absl::StrCat("input ", i);
    if (formal && formal->kind == FormalKind::kVariadic && i > 0 && schema->input(i - 1) == formal) continue;
    if (!taken.empty() && taken.back().second == words(set)) {
      absl::StrAppend(&taken.back().first, ", ", name);
    } else {
      taken.emplace_back(name, words(set));
    }
    if (formal && formal->allowed) missing |= formal->allowed->tensor & ~set.mask;
  }
  t.taken = absl::StrJoin(taken, "; ", absl::PairFormatter(": "));
  t.missing = words(TypeSet(missing));
  return t;
}

std::string row(const OpDef& def) {
  const std::string domain(def.name.domain), type(def.name.type);
  const auto versions = schema_versions(domain, type);
  const OpSchema* schema = versions.empty() ? nullptr : &versions.back();
  const Types types = types_of(def, schema);
  std::vector<std::string> attributes;
  for (std::string_view a : def.attributes)
    if (!a.starts_with("_")) attributes.push_back(absl::StrCat("`", std::string(a), "`"));
  return absl::StrCat("| ", domain.empty() ? "" : domain + ".", type, " | ",
                      schema ? absl::StrCat(schema->since_version) : "", " | ", types.taken, " | ", types.missing,
                      " | ", absl::StrJoin(attributes, " "), " |\n");
}

void print_page() {
  std::vector<const OpDef*> standard, internal;
  for (const OpDef* d : op_defs()) (d->name.domain == kInternalDomain ? internal : standard).push_back(d);
  std::printf(R"(# Operators

Made by `build/release/tests/operators_page` from `src/ops/operators.inc`, the traits of each operator and the schemas of
the pinned onnx package; a test compares. Import brings older opsets (from 6 on) to the version shown. "Types" are those
that the kernels of each input take, "not here" those that the schema allows beyond them: a model that has them is
refused by name, when it is loaded, whether its dims are known then or not. So is one with types that no version of the
operator has in ONNX, though kernels would take them. No types stand where the operator takes any value (Identity,
control flow, sequences).

Where other runtimes read ONNX otherwise: a Loop with a trip count and an empty condition input makes all its trips,
whatever condition its body gives, as ONNX says (onnxruntime ends it when the body gives false). With neither, the body
ends it.

Words for types: floats are f32, f64, f16, bf16; signed, unsigned and ints are of 8 to 64 bits; numbers are floats and
ints; fixed is numbers and bool; plain is fixed and string; indices are i32, i64; newer are types that this build has
no name for.

| operator | since | types | not here | attributes |
|---|---|---|---|---|
)");
  for (const OpDef* d : standard) std::fputs(row(*d).c_str(), stdout);
  std::printf(R"(
Made by passes and placement, in no file:

| operator | since | types | not here | attributes |
|---|---|---|---|---|
)");
  for (const OpDef* d : internal) std::fputs(row(*d).c_str(), stdout);
}

}  // namespace
}  // namespace forethought

int main() { forethought::print_page(); }
