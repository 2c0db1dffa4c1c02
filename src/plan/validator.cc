// Says whether a plan is safe for its problem, from the definition alone: it shares no code with the planner.
#include "plan/validator.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "plan/happens_before.h"
#include "plan/names.h"

namespace forethought {
namespace validation {
namespace {

constexpr StepNo kEnd = std::numeric_limits<StepNo>::max();  // when the caller reads the outputs
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
constexpr int64_t kMost = int64_t{1} << 60;  // bytes and offsets beyond are refused, so that sums cannot overflow

// A stretch of bytes of a value, and the step and value that put its content there.
struct Piece {
  int64_t begin, end;  // within the buffer
  StepNo writer;       // kNoId for weights and inputs
  ValueNo origin;
};
using Buffer = std::pair<ArenaKind, int32_t>;
struct Write {
  StepNo step;
  ValueNo value;
  int64_t begin, end;
};

class Validator {
 public:
  Validator(const PlanProblem& p, const Plan& plan, const HappensBefore& before)
      : p_(p), plan_(plan), before_(before) {}

  Status run() {
    RETURN_IF_ERROR(check_counts());
    RETURN_IF_ERROR(check_problem());
    for (ValueNo v = 0; v < count(); ++v) RETURN_IF_ERROR(check_place(v));
    for (ValueNo v = 0; v < count(); ++v) RETURN_IF_ERROR(check_root(v));
    RETURN_IF_ERROR(check_regions(plan_, "the host", region(kNoId)));
    for (int32_t d = 0; d < p_.devices; ++d) {
      RETURN_IF_ERROR(check_regions(plan_.devices[d], absl::StrCat("device ", d), region(d)));
    }
    pieces_.resize(p_.values.size());
    for (ValueNo v = 0; v < count(); ++v) {
      if (borrowed(v)) pieces_[v] = {{at(v).offset, end_of(v), kNoId, v}};
    }
    for (StepNo s = 0; s < steps(); ++s) RETURN_IF_ERROR(follow(s));
    return check_reads();
  }

 private:
  ValueNo count() const { return static_cast<ValueNo>(p_.values.size()); }
  StepNo steps() const { return static_cast<StepNo>(p_.steps.size()); }
  bool known(ValueNo v) const { return v >= 0 && v < count(); }
  const ValuePlace& at(ValueNo v) const { return plan_.values[v]; }
  Buffer buffer(ValueNo v) const { return {at(v).arena, at(v).index}; }
  bool borrowed(ValueNo v) const { return p_.values[v].role == Role::weight || p_.values[v].role == Role::input; }
  bool touched(ValueNo v) const { return first_[v] != kNoId; }
  std::string label(ValueNo v) const { return value_label(p_, v); }
  std::string label_of_step(StepNo s) const { return s == kEnd ? "the caller" : step_label(p_, s); }
  int64_t end_of(ValueNo v) const {
    return p_.values[v].bytes == kUnknownSize ? kForever : at(v).offset + p_.values[v].bytes;
  }

  Status check_counts() const {
    if (plan_.values.size() < p_.values.size()) {
      return invalid(
          absl::StrCat("missing: the plan places ", plan_.values.size(), " of ", p_.values.size(), " values"));
    }
    if (plan_.values.size() > p_.values.size()) {
      return invalid(absl::StrCat("unknown id: the plan places value ", count(), ", which the problem does not have"));
    }
    const size_t n = p_.steps.size();
    size_t aliases = 0, overwrites = 0, windows = 0;
    if (plan_.first_alias.size() != n + 1 || plan_.first_overwrite.size() != n + 1 ||
        plan_.first_window.size() != n + 1) {
      return invalid("missing: the plan does not decide the facts of every step");
    }
    for (size_t s = 0; s <= n; ++s) {
      if (plan_.first_alias[s] != aliases || plan_.first_overwrite[s] != overwrites ||
          plan_.first_window[s] != windows) {
        return invalid(absl::StrCat("missing: the plan's decisions do not match the facts of ", step_label(p_, s)));
      }
      if (s == n) break;
      aliases += p_.steps[s].aliases.size();
      overwrites += p_.steps[s].may_overwrite.size();
      windows += p_.steps[s].windows.size();
    }
    if (plan_.devices.size() != static_cast<size_t>(std::max(0, p_.devices))) {
      return invalid(
          absl::StrCat("missing: the plan has slabs for ", plan_.devices.size(), " of ", p_.devices, " devices"));
    }
    if (plan_.aliases.size() != aliases || plan_.overwrites.size() != overwrites || plan_.windows.size() != windows) {
      return invalid("missing: the plan does not decide every fact");
    }
    return {};
  }

  // Bytes of the regions of a slab; 0: it is one.
  int64_t region(int32_t device) const {
    const size_t slab = device == kNoId ? 0 : static_cast<size_t>(device) + 1;
    return p_.region_bytes.size() > slab ? p_.region_bytes[slab] : 0;
  }
  static Status check_regions(const SlabFigures& slab, const std::string& whose, int64_t region) {
    if (region >= 0 && slab.region == (region > 0 && slab.peak > region ? region : 0)) return {};
    return invalid(absl::StrCat("wrong facts: the slab of ", whose, ", ", slab.peak, " bytes, is made of regions of ",
                                slab.region, " bytes instead of ", region));
  }

  // The problem must make sense, too: an executor would follow it.
  Status check_problem() {
    first_.assign(p_.values.size(), kNoId);
    last_ = writer_ = first_;
    for (ValueNo v = 0; v < count(); ++v) {
      if (p_.values[v].role != Role::input && p_.values[v].role != Role::output) continue;
      if (!owners_.emplace(std::pair(p_.values[v].role, p_.values[v].index), v).second) {
        return invalid(
            absl::StrCat("unknown id: ", label(v), " shares its number with another ", name(p_.values[v].role)));
      }
    }
    for (ValueNo v = 0; v < count(); ++v) {
      const PlanValue& value = p_.values[v];
      if (value.device < kNoId || value.device >= p_.devices) {
        return invalid(absl::StrCat("unknown id: ", label(v), " is on device ", value.device));
      }
      if (value.alignment == 0 || value.bytes < kUnknownSize || value.bytes > kMost) {
        return invalid(
            absl::StrCat("wrong facts: ", label(v), " has ", value.bytes, " bytes, alignment ", value.alignment));
      }
    }
    for (StepNo s = 0; s < steps(); ++s) {
      for (const ValueNo v : p_.steps[s].reads) {
        if (!known(v)) return invalid(absl::StrCat("unknown id: ", step_label(p_, s), " reads value ", v));
        if (!borrowed(v) && (writer_[v] == kNoId || writer_[v] == s || !before_(writer_[v], s))) {
          return invalid(absl::StrCat("read before write: ", step_label(p_, s), " reads ", label(v),
                                      ", which no step that is over by then has written"));
        }
        if (first_[v] == kNoId) first_[v] = s;
        last_[v] = s;
      }
      for (const ValueNo v : p_.steps[s].writes) {
        if (!known(v)) return invalid(absl::StrCat("unknown id: ", step_label(p_, s), " writes value ", v));
        if (borrowed(v)) return invalid(absl::StrCat("in-place hazard: ", step_label(p_, s), " writes ", label(v)));
        if (writer_[v] != kNoId) return invalid(absl::StrCat("overlap: ", label(v), " is written twice"));
        writer_[v] = first_[v] = last_[v] = s;
      }
    }
    for (ValueNo v = 0; v < count(); ++v) {
      if (p_.values[v].role == Role::output && writer_[v] == kNoId) {
        return invalid(absl::StrCat("read before write: no step writes the output ", label(v)));
      }
    }
    return {};
  }

  Status check_place(ValueNo v) const {
    const PlanValue& value = p_.values[v];
    const ValuePlace& pl = at(v);
    if (!known(pl.root) || (pl.partner != kNoId && !known(pl.partner)) ||
        (pl.overwrites != kNoId && !known(pl.overwrites))) {
      return invalid(absl::StrCat("unknown id: the placement of ", label(v), " names a value that is not there"));
    }
    if (pl.first_step != first_[v] || pl.last_step != last_[v]) {
      return invalid(absl::StrCat("wrong facts: ", label(v), " lives from ", step_label(p_, first_[v]), " to ",
                                  step_label(p_, last_[v]), "; the plan says otherwise"));
    }
    if (value.role == Role::object) {
      if (pl.arena == ArenaKind::none) return {};
      return invalid(absl::StrCat("unknown id: ", label(v), " is an object and has no bytes in any arena"));
    }
    if (pl.arena == ArenaKind::none) {
      if (!touched(v) && !borrowed(v) && value.role != Role::output) return {};
      return invalid(absl::StrCat("missing: ", label(v), " has no place"));
    }
    if (value.bytes == kUnknownSize ? pl.bytes != kUnknownSize : pl.bytes < value.bytes) {
      return invalid(absl::StrCat("undersized: ", label(v), " needs ", value.bytes, " bytes and has ", pl.bytes));
    }
    if (pl.offset < 0 || pl.offset > kMost || pl.offset_in_root < 0 || pl.offset_in_root > pl.offset) {
      return invalid(
          absl::StrCat("out of arena: ", label(v), " at offset ", pl.offset, ", ", pl.offset_in_root, " in its root"));
    }
    if (pl.root == v && pl.offset % value.alignment != 0) {
      return invalid(absl::StrCat("misaligned: ", label(v), " at offset ", pl.offset, " wants ", value.alignment));
    }
    RETURN_IF_ERROR(check_home(v));
    return check_inside_arena(v);
  }

  // The value lies where its root and its offset in it say.
  Status check_root(ValueNo v) const {
    const ValuePlace& pl = at(v);
    const ValuePlace& root = at(pl.root);
    if (pl.arena != ArenaKind::none && p_.values[pl.root].device != p_.values[v].device) {
      return invalid(absl::StrCat("out of arena: ", label(v), " shares bytes with ", label(pl.root),
                                  ", which is on another device"));
    }
    if (root.root == pl.root && buffer(pl.root) == buffer(v) && root.offset + pl.offset_in_root == pl.offset) return {};
    return invalid(absl::StrCat("view outlives owner: ", label(v), " is not where its root ", label(pl.root),
                                " and its offset in it say"));
  }

  Status check_home(ValueNo v) const {
    const ValuePlace& pl = at(v);
    const PlanValue& value = p_.values[v];
    bool right = true;
    const auto own = [&](ArenaKind arena) { return pl.arena == arena && pl.index == value.index && pl.offset == 0; };
    switch (value.role) {
      case Role::weight:
        right = own(ArenaKind::weights);
        break;
      case Role::input:
        right = own(ArenaKind::input);
        break;
      case Role::output:
        right = own(ArenaKind::output);
        break;
      case Role::data_dependent:
        right = pl.arena == ArenaKind::side;
        break;
      case Role::scratch:
        right = pl.arena == ArenaKind::slab || value.bytes == kUnknownSize;
        break;
      case Role::execution:
        right = value.bytes != kUnknownSize || pl.arena != ArenaKind::slab;
        break;
      case Role::object:
        break;
    }
    if (right) return {};
    return invalid(absl::StrCat("out of arena: ", label(v), " of role ", name(value.role), " is in buffer ", pl.index,
                                " of arena ", name(pl.arena), " at offset ", pl.offset));
  }

  Status check_inside_arena(ValueNo v) const {
    const ValuePlace& pl = at(v);
    int64_t room = 0;
    if (pl.arena == ArenaKind::slab) {
      const int32_t device = p_.values[v].device;
      room = device == kNoId ? plan_.peak : plan_.devices[device].peak;
      if (pl.index != device) return invalid(absl::StrCat("unknown id: slab number ", pl.index, " for ", label(v)));
    } else if (pl.arena == ArenaKind::side) {
      if (!known(pl.index) || at(pl.index).root != pl.index) {
        return invalid(absl::StrCat("unknown id: side buffer ", pl.index, " for ", label(v)));
      }
      room = p_.values[pl.index].bytes;
    } else if (pl.arena == ArenaKind::weights) {
      if (p_.values[pl.root].role != Role::weight || p_.values[pl.root].index != pl.index) {
        return invalid(absl::StrCat("unknown id: weight ", pl.index, " is not that of ", label(v)));
      }
      room = p_.values[pl.root].bytes;
    } else {
      const Role role = pl.arena == ArenaKind::input ? Role::input : Role::output;
      const auto owner = owners_.find({role, pl.index});
      if (owner == owners_.end()) {
        return invalid(absl::StrCat("unknown id: there is no ", name(role), " number ", pl.index, ", where ", label(v),
                                    " should be"));
      }
      room = p_.values[owner->second].bytes;
    }
    if (room == kUnknownSize || p_.values[v].bytes == kUnknownSize ||
        (pl.offset <= room && pl.bytes <= room - pl.offset)) {
      return pl.arena == ArenaKind::slab ? check_inside_region(v) : absl::OkStatus();
    }
    return invalid(absl::StrCat("out of arena: ", label(v), " at ", pl.offset, ", ", pl.bytes, " bytes, leaves the ",
                                room, " bytes of its buffer in ", name(pl.arena)));
  }

  Status check_inside_region(ValueNo v) const {
    const ValuePlace& pl = at(v);
    const int64_t r = region(p_.values[v].device);
    if (r == 0) return {};
    const int64_t within = pl.offset % r;
    if (pl.bytes > r - within) {
      return invalid(absl::StrCat("straddles: ", label(v), " at ", pl.offset, ", ", pl.bytes,
                                  " bytes, lies in two regions of ", r, " bytes"));
    }
    if (pl.root == v && within % p_.values[v].alignment != 0) {
      return invalid(
          absl::StrCat("misaligned: ", label(v), " at ", within, " of its region wants ", p_.values[v].alignment));
    }
    return {};
  }

  // Finds what step s writes where, and of which stretches its outputs then consist.
  Status follow(StepNo s) {
    const PlanStep& step = p_.steps[s];
    for (const ValueNo v : step.writes) {
      if (p_.values[v].role != Role::object) pieces_[v] = {{at(v).offset, end_of(v), s, v}};
    }
    for (size_t i = 0; i < step.aliases.size(); ++i) {
      if (plan_.alias_honoured(s, i)) RETURN_IF_ERROR(follow_view(s, step.aliases[i]));
    }
    for (size_t i = 0; i < step.windows.size(); ++i) {
      if (plan_.window_honoured(s, i)) RETURN_IF_ERROR(follow_window(s, step.windows[i]));
    }
    for (size_t i = 0; i < step.may_overwrite.size(); ++i) {
      if (plan_.overwrite_honoured(s, i)) RETURN_IF_ERROR(check_overwrite(s, step.may_overwrite[i]));
    }
    for (const ValueNo v : step.writes) {
      const ValueNo over = at(v).overwrites;
      if (over == kNoId || overwrites_.count({s, v, over}) != 0) continue;
      return invalid(absl::StrCat("in-place hazard: ", label(v), " overwrites ", label(over), " at ", step_label(p_, s),
                                  ", whose kernel allows no such thing or does not do it"));
    }
    for (const ValueNo v : step.writes) {
      for (const Piece& piece : pieces_[v]) {
        if (piece.writer == s && piece.origin == v) writes_[buffer(v)].push_back({s, v, piece.begin, piece.end});
      }
    }
    return {};
  }

  bool is_read(StepNo s, ValueNo v) const {
    return std::count(p_.steps[s].reads.begin(), p_.steps[s].reads.end(), v) != 0;
  }
  bool is_written(StepNo s, ValueNo v) const { return known(v) && writer_[v] == s; }

  Status follow_view(StepNo s, const AliasFact& fact) {
    if (!is_read(s, fact.in) || !is_written(s, fact.out) || fact.byte_offset < 0 || fact.byte_offset > kMost) {
      return invalid(absl::StrCat("unknown id: a view at ", step_label(p_, s), " that is no input and output of it"));
    }
    const int64_t begin = at(fact.in).offset + fact.byte_offset;
    if (buffer(fact.in) != buffer(fact.out) || begin != at(fact.out).offset || at(fact.in).arena == ArenaKind::none ||
        end_of(fact.out) > end_of(fact.in)) {
      return invalid(absl::StrCat("view outlives owner: ", label(fact.out), " should be a view of ", label(fact.in),
                                  " at ", fact.byte_offset, " after ", step_label(p_, s), " but lies elsewhere"));
    }
    pieces_[fact.out].clear();
    for (const Piece& piece : pieces_[fact.in]) {
      const Piece part{std::max(piece.begin, begin), std::min(piece.end, end_of(fact.out)), piece.writer, piece.origin};
      if (part.begin < part.end) pieces_[fact.out].push_back(part);
    }
    return {};
  }

  Status follow_window(StepNo s, const WindowFact& fact) {
    if (!is_read(s, fact.in) || !is_written(s, fact.out) || fact.byte_offset < 0 || fact.byte_offset > kMost) {
      return invalid(absl::StrCat("unknown id: a window at ", step_label(p_, s), " that is no input and output of it"));
    }
    const int64_t begin = at(fact.in).offset, end = end_of(fact.in);
    if (buffer(fact.in) != buffer(fact.out) || begin != at(fact.out).offset + fact.byte_offset ||
        end > end_of(fact.out)) {
      return invalid(absl::StrCat("wrong facts: ", label(fact.in), " should lie inside ", label(fact.out), " at ",
                                  fact.byte_offset, " for ", step_label(p_, s), " but lies elsewhere"));
    }
    std::vector<Piece> parts;
    for (const Piece& piece : pieces_[fact.out]) {
      const bool apart = piece.end <= begin || end <= piece.begin;
      if (!apart && piece.origin != fact.out) {
        return invalid(absl::StrCat("overlap: two windows of ", label(fact.out), " at ", step_label(p_, s)));
      }
      if (apart) {
        parts.push_back(piece);
        continue;
      }
      if (piece.begin < begin) parts.push_back({piece.begin, begin, s, fact.out});
      if (end < piece.end) parts.push_back({end, piece.end, s, fact.out});
    }
    parts.insert(parts.end(), pieces_[fact.in].begin(), pieces_[fact.in].end());
    pieces_[fact.out] = std::move(parts);
    return {};
  }

  Status check_overwrite(StepNo s, const OverwriteFact& fact) {
    const auto& reads = p_.steps[s].reads;
    const auto refuse = [&](const char* why) {
      return invalid(absl::StrCat("in-place hazard: ", label(fact.out), " overwrites ",
                                  known(fact.in) ? label(fact.in) : "?", " at ", step_label(p_, s), ", but ", why));
    };
    if (!is_written(s, fact.out) || std::count(reads.begin(), reads.end(), fact.in) != 1) {
      return refuse("the step does not read it exactly once");
    }
    if (p_.values[fact.in].role != Role::execution) return refuse("that is not an intermediate");
    if (buffer(fact.in) != buffer(fact.out) || at(fact.in).offset != at(fact.out).offset)
      return refuse("lies elsewhere");
    if (end_of(fact.out) > end_of(fact.in)) return refuse("is larger");
    if (at(fact.out).overwrites != fact.in) return refuse("its placement does not say so");
    overwrites_.emplace(std::tuple(s, fact.out, fact.in), true);
    return {};
  }

  Status check_reads() const {
    for (const auto& [buffer, writes] : writes_) {
      if (buffer.first == ArenaKind::weights || buffer.first == ArenaKind::input) {
        return invalid(absl::StrCat("in-place hazard: ", step_label(p_, writes[0].step), " writes ",
                                    label(writes[0].value), " into a caller's or the model's memory"));
      }
    }
    for (StepNo s = 0; s < steps(); ++s) {
      for (const ValueNo v : p_.steps[s].reads) RETURN_IF_ERROR(check_read(s, v));
      // A step finds its own results, whether somebody reads them later or not.
      for (const ValueNo v : p_.steps[s].writes) RETURN_IF_ERROR(check_read(s, v));
    }
    for (ValueNo v = 0; v < count(); ++v) {
      if (p_.values[v].role == Role::output) RETURN_IF_ERROR(check_read(kEnd, v));
    }
    return {};
  }

  Status check_read(StepNo reader, ValueNo v) const {
    const auto writes = writes_.find(buffer(v));
    if (writes == writes_.end()) return {};
    for (const Piece& piece : pieces_[v]) {
      if (piece.begin >= piece.end || piece.writer == kNoId) continue;
      for (const Write& w : writes->second) {
        if (w.begin >= piece.end || piece.begin >= w.end || w.begin >= w.end) continue;
        if (w.step == piece.writer && w.value == piece.origin) continue;
        if (w.step != piece.writer && before_(w.step, piece.writer)) continue;
        if (reader != kEnd && w.step != reader && before_(reader, w.step)) continue;
        if (w.step == reader && overwrites_.count({reader, w.value, v}) != 0) continue;
        return hazard(reader, v, piece, w);
      }
    }
    return {};
  }

  Status hazard(StepNo reader, ValueNo v, const Piece& piece, const Write& w) const {
    const auto unordered = [&](StepNo a, StepNo b) { return a != b && !before_(a, b) && !before_(b, a); };
    const char* kind = "overlap: ";
    if (unordered(w.step, piece.writer) || (reader != kEnd && unordered(w.step, reader))) {
      kind = "cross-lane hazard: ";
    } else if (at(w.value).overwrites != kNoId) {
      kind = "in-place hazard: ";
    } else if (piece.origin != v && at(v).place == Place::view) {
      kind = "view outlives owner: ";
    }
    return invalid(absl::StrCat(kind, label_of_step(reader), " needs ", label(v), ", whose bytes ", piece.begin, "..",
                                piece.end, " of ", name(at(v).arena), " were written by ", step_label(p_, piece.writer),
                                " (", label(piece.origin), "); ", step_label(p_, w.step), " may write ", label(w.value),
                                " over them in between"));
  }

  const PlanProblem& p_;
  const Plan& plan_;
  const HappensBefore& before_;
  std::vector<StepNo> first_, last_, writer_;
  std::map<std::pair<Role, int32_t>, ValueNo> owners_;  // inputs and outputs by number
  std::vector<std::vector<Piece>> pieces_;              // by ValueNo
  std::map<Buffer, std::vector<Write>> writes_;
  std::map<std::tuple<StepNo, ValueNo, ValueNo>, bool> overwrites_;  // (step, out, in) that the plan makes and may make
};

}  // namespace
}  // namespace validation

Status validate(const PlanProblem& problem, const Plan& plan) {
  ASSIGN_OR_RETURN(const auto before, validation::HappensBefore::of(problem));
  return validation::Validator(problem, plan, before).run();
}

}  // namespace forethought
