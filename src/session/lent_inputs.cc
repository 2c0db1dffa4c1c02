#include "session/lent_inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "kernels/movement/strided_copy.h"
#include "session/session.h"
#include "tensor/strides.h"

namespace forethought {
namespace {

// Whether no two elements share a place, those apart that a step of 0 repeats.
bool lie_apart(const Tensor& t) {
  absl::InlinedVector<std::pair<int64_t, int64_t>, 8> steps;  // and how often
  for (size_t d = 0; d < t.dims.size(); ++d)
    if (t.dims[d] > 1 && t.strides[d] != 0) steps.emplace_back(std::abs(t.strides[d]), t.dims[d]);
  std::ranges::sort(steps);
  int64_t reach = 0;
  for (const auto& [step, count] : steps) {
    if (step <= reach) return false;
    reach += step * (count - 1);
  }
  return true;
}

// As of the views that Slice gives: rows may leave out every second element.
ViewUnit unit_of(const Tensor& t) {
  size_t last = t.dims.size();
  while (last > 0 && t.dims[last - 1] == 1) --last;
  if (last == 0 || std::abs(t.strides[last - 1]) <= 2) return kRowUnit;
  for (size_t d = 0; d < last; ++d)
    if (t.dims[d] > 1 && std::abs(t.strides[d]) == 1 && t.dims.size() - 1 - d == kColumnUnit) return kColumnUnit;
  return kNoUnit;
}

}  // namespace

Status check_strides(const Tensor& t) {
  const int bits = bit_width(t.dtype);
  if (bits < 8) return invalid(absl::StrCat("a tensor of ", name(t.dtype), " has no strides: give it row-major"));
  if (t.strides.size() != t.dims.size())
    return invalid(absl::StrCat("the strides ", to_string(t.strides), " came for the shape ", to_string(t.dims),
                                ": give one for each dim"));
  if (t.elements() == 0) return absl::OkStatus();
  const int64_t most = (int64_t{1} << 60) / (bits / 8);
  const auto reach = reach_of(t.dims, t.strides);
  if (!reach || reach->above > most || reach->below < -most || reach->above - reach->below > most)
    return invalid(absl::StrCat("the strides ", to_string(t.strides), " of ", to_string(t.dims),
                                " reach farther than memory does"));
  return absl::OkStatus();
}

bool reads_in_place(const Session& session, size_t input, const Tensor& lent) {
  if (input >= session.inputs().size() || !check_strides(lent).ok()) return false;
  const PreparedGraph& graph = session.prepared();
  const PreparedValue& value = graph.values[graph.view->inputs()[input].index];
  return (value.lent & lent_bit(unit_of(lent))) != 0 && lie_apart(lent);
}

Status settle_strided(Session& session, std::span<const Value> inputs, bool in_place,
                      absl::InlinedVector<Value, 8>* settled) {
  settled->assign(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_strided(inputs[i])) continue;
    Tensor& t = (*settled)[i].tensor();
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (t.dims[d] == 1) t.strides[d] = 0;  // that is no step
    if (t.elements() == 0 || is_row_major(t.dims, t.strides)) {
      t.strides.clear();
    } else if (!in_place || !reads_in_place(session, i, t)) {
      ASSIGN_OR_RETURN(Tensor copy, session.take_io(t.dtype, t.dims, session.inputs()[i].name));
      const kernels::StridedCopy moves(kernels::element_of(t.dtype), t.dims, t.strides, row_major_strides(t.dims));
      moves.run(active_isa(), t.data, copy.data, 0, moves.units());
      t = std::move(copy);
    }
  }
  return absl::OkStatus();
}

}  // namespace forethought
