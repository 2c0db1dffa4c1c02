#include "ops/control/body_shapes.h"

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "ops/control/body_values.h"

namespace forethought {
namespace {

// How many rules of this kind are at work on this thread, one inside the other.
thread_local int rules_at_work = 0;
struct RuleDepth {
  RuleDepth() { ++rules_at_work; }
  ~RuleDepth() { --rules_at_work; }
};
// Bodies nested deeper get their states without known dims at once: a second look at each level would double the work
// of all levels below it.
constexpr int kMaxExactDepth = 5;

void forget_dims(SymShape& s) {
  for (Dim& d : s.dims) d = Dim::unknown();
}

bool loses(const SymShape& before, const SymShape& after) {
  if (!before.has_rank) return false;
  if (!after.has_rank) return true;
  for (int i = 0; i < before.rank(); ++i)
    if (!before.dims[i].is_unknown() && after.dims[i].is_unknown()) return true;
  return false;
}

}  // namespace

StatusOr<std::vector<InferOutput>> settle_states(StateFacts& states, int first,
                                                 FunctionRef<StatusOr<std::vector<InferOutput>>()> infer) {
  const RuleDepth depth;
  if (rules_at_work > kMaxExactDepth)
    for (SymShape& s : states.shapes) forget_dims(s);
  // States keep what no trip changes of them. Each round but the last loses something, and the third all dims.
  for (int round = 0;; ++round) {
    ASSIGN_OR_RETURN(std::vector<InferOutput> out, infer());
    bool changed = false;
    for (size_t s = 0; s < states.types.size(); ++s) {
      const InferOutput& next = out[static_cast<size_t>(first) + s];
      RETURN_IF_ERROR(merge_type(states.types[s], next.type, "state", static_cast<int>(s), &states.types[s]));
      if (!states.types[s].is_tensor()) continue;
      SymShape merged = merge_shape(states.shapes[s], next.shape);
      const bool lost = loses(states.shapes[s], merged);
      if (lost && round >= 2) {
        forget_dims(merged);
        if (round >= 4) merged = SymShape::unknown();
      }
      changed |= lost;
      states.shapes[s] = std::move(merged);
    }
    if (!changed) return out;
  }
}

void set_state(InferCtx& c, int s, const StateFacts& states, const InferOutput& made) {
  const ValueType& type = states.types[static_cast<size_t>(s)];
  if (type.is_tensor()) {
    c.set(s, type.dtype(), states.shapes[static_cast<size_t>(s)]);
  } else if (s < c.outputs()) {
    const bool filled = type.kind() == ValueType::Kind::optional && *type.inner() == made.type;
    c.set_type(s, filled ? made.type : type);
  }
}

Status set_stacked(InferCtx& c, int out, const InferOutput& slice, const Dim& trips, int64_t axis) {
  if (!slice.type.is_tensor()) {
    if (slice.type.is_unknown()) return absl::OkStatus();
    return invalid(absl::StrCat("scan output ", out, " is ", to_string(slice.type), ", no tensor"));
  }
  if (c.wants_out(out) && bit_width(slice.type.dtype()) % 8 != 0)
    return unsupported(absl::StrCat("output ", out, " stacks slices of ", name(slice.type.dtype()),
                                    "; packed elements have none of whole bytes"));
  SymShape shape = slice.shape;
  if (shape.has_rank) {
    ASSIGN_OR_RETURN(const int at, c.axis(axis, shape.rank() + 1));
    shape.dims.insert(shape.dims.begin() + at, trips);
    const auto numbers = shape.numbers();
    if (numbers && !storage_bytes(slice.type.dtype(), Layout::plain(), *numbers) &&
        slice.type.dtype() != DType::kString)
      return invalid(absl::StrCat("scan output ", out, " would be ", name(slice.type.dtype()), to_string(shape),
                                  ", which no memory holds: nothing ends the loop before trip ", trips.value(),
                                  "; lower the trip count or give the loop a condition"));
  }
  c.set(out, slice.type.dtype(), std::move(shape));
  return absl::OkStatus();
}

Dims slice_never_made(const GraphValue& value) {
  Dims dims;
  for (const Dim& d : (value.declared ? *value.declared : value.shape).dims) dims.push_back(d.known().value_or(0));
  return dims;
}

}  // namespace forethought
