// Folds views to the storage they look into (must-alias facts).
#include "plan/fold.h"

namespace forethought::planning {
namespace {

bool is_tensor(Role role) { return role != Role::object && role != Role::scratch; }

// Whether `fact` can hold; `source` is where its input lies.
bool can_view(const Folding& f, const AliasFact& fact, Storages::Spot source) {
  const PlanValue& out = f.problem.values[fact.out];
  const ArenaKind arena = f.storages.arena(source.root);
  if (!is_tensor(out.role) || !is_tensor(f.problem.values[fact.in].role) || arena == ArenaKind::none) return false;
  if (out.device != f.storages.device(source.root)) return false;
  if (out.bytes == kUnknownSize && f.storages.bytes(source.root) != kUnknownSize) return false;
  const bool own_bytes = arena == ArenaKind::slab || arena == ArenaKind::side;
  if (out.role == Role::output) {  // the whole storage becomes the output's buffer
    return arena == ArenaKind::slab && source.offset + fact.byte_offset == 0 &&
           out.bytes == f.storages.bytes(source.root);
  }
  if (out.role == Role::data_dependent) return own_bytes;
  return true;
}

}  // namespace

void fold_views(Folding& f) {
  for (StepNo s = 0; static_cast<size_t>(s) < f.problem.steps.size(); ++s) {
    const PlanStep& step = f.problem.steps[s];
    for (size_t i = 0; i < step.aliases.size(); ++i) {
      const AliasFact& fact = step.aliases[i];
      if (f.is_view[fact.out] || (f.model && !f.model->alias_honoured(s, i))) continue;
      const Storages::Spot source = f.storages.find(fact.in);
      if (!can_view(f, fact, source)) continue;
      const ArenaKind now = f.storages.arena(source.root);
      const Role role = f.problem.values[fact.out].role;
      f.plan.aliases[f.plan.first_alias[s] + i] = 1;
      f.is_view[fact.out] = 1;
      if (role == Role::output) {  // the output owns the bytes and its source is born in them
        f.storages.merge(source.root, fact.out, 0, Place::under, fact.out);
        continue;
      }
      f.storages.merge(fact.out, source.root, source.offset + fact.byte_offset, Place::view, fact.in);
      if (role == Role::data_dependent && now == ArenaKind::slab) f.storages.set_arena(source.root, ArenaKind::side);
    }
  }
}

}  // namespace forethought::planning
