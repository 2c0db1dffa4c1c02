// The planner's answer: where every value lives, which views, overwrites and windows hold, and how good the packing is.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.h"

namespace forethought {

// slab: the execution arena of the host (`ValuePlace::index` is kNoId) or of device number `index`. input, output,
// weights: the buffer number `ValuePlace::index` of that kind. side: a counted buffer of its own, number `index` (the
// id of its root). none: an object, or a value that no step touches.
enum class ArenaKind : uint8_t { none, slab, input, output, weights, side };

// How a value came to its bytes, relative to `ValuePlace::partner`.
// own: a buffer for itself. view: an honoured alias of the partner. over: written in place over the partner.
// under: the partner is later written in place over it. inside: born in its window of the partner.
enum class Place : uint8_t { own, view, over, under, inside };

struct ValuePlace {
  Role role = Role::execution;
  ArenaKind arena = ArenaKind::none;
  Place place = Place::own;
  int32_t index = kNoId;       // which buffer of the arena; kNoId in the host's slab
  ValueNo root = kNoId;        // the value that owns the bytes; itself unless it lives in another's
  ValueNo partner = kNoId;     // see Place
  ValueNo overwrites = kNoId;  // the value whose bytes it takes in place
  int64_t offset_in_root = 0;
  int64_t offset = 0;                            // within the buffer
  int64_t bytes = 0;                             // or kUnknownSize
  StepNo first_step = kNoId, last_step = kNoId;  // of the value's own accesses; kNoId if no step touches it
  bool operator==(const ValuePlace&) const = default;
};

// How good the packing of one slab is.
struct SlabFigures {
  int64_t naive = 0;        // bytes with one buffer for each value that is not kept outside the slab
  int64_t lower_bound = 0;  // the most bytes live at one step, with views, overwrites and windows as decided; in
                            // regions perhaps more, since no value straddles two
  int64_t peak = 0;         // bytes of the slab
  int64_t padding = 0;      // bytes of the lower bound that are rounding
  int32_t slots = 0;        // that values share whole; only with Effort::slots
  int64_t region = 0;       // it is larger than a region: bytes of each of its regions but the last; 0: it is one
  int64_t regions() const { return region > 0 ? (peak + region - 1) / region : 1; }
  bool operator==(const SlabFigures&) const = default;
};

// Its own figures are those of the host's slab.
struct Plan : SlabFigures {
  std::vector<ValuePlace> values;  // by ValueNo

  // Which facts of each step hold, in the order of the step's lists; those of all steps follow one another.
  std::vector<uint8_t> aliases, overwrites, windows;
  std::vector<uint32_t> first_alias, first_overwrite, first_window;  // by StepNo, with one entry more at the end

  std::vector<SlabFigures> devices;  // by PlanValue::device
  int64_t side_values = 0;           // buffers kept in the side arena
  bool weighed = false;              // some overwrite was weighed against the bytes that live at a time
  bool operator==(const Plan&) const = default;

  bool alias_honoured(StepNo s, size_t i) const { return aliases[first_alias[s] + i] != 0; }
  bool overwrite_honoured(StepNo s, size_t i) const { return overwrites[first_overwrite[s] + i] != 0; }
  bool window_honoured(StepNo s, size_t i) const { return windows[first_window[s] + i] != 0; }
};

}  // namespace forethought
