// Scan outputs of Loop and Scan: slices of one shape, stacked along an axis. Trips write them where they belong: into
// the node's output if the number of trips is known, else into a buffer that doubles.
#pragma once

#include <cstdint>

#include "kernel_api/body_host.h"
#include "kernel_api/facts.h"

namespace forethought {

// What does not change from run to run.
struct StackedForm {
  int slot = 0;            // the node's output
  int64_t axis = 0;        // of the result
  bool backwards = false;  // the first slice comes last; needs a known number of trips
  bool planned = false;    // the output has its size and memory before the first trip
  Dims empty;              // a slice's dims where there are no trips; what nobody declared is 0
};

// One scan output of one run.
class Stacked {
 public:
  // `trips`: how many there will be, which a planned output has room for; -1: not known. `most`: there will not be
  // more.
  void begin(const StackedForm& form, int64_t trips, int64_t most);

  // Memory for the slice of trip `trip`; none if it is not known yet how large a slice is (then `slice`, if not null,
  // tells) or if it cannot be written in place.
  StatusOr<Value> offer(RunCtx& c, BodyHost& host, int64_t trip, const Dims* slice);
  bool wants_dims(const RunCtx& c) const { return !known_ && c.has_out(form_->slot); }

  // Takes what the trip made, which is where offer() said or elsewhere.
  Status keep(RunCtx& c, BodyHost& host, int64_t trip, const Value& made);

  // Hands the result over after `trips` trips. `slice`: a slice's dims if no trip told them but the body can; or null.
  Status finish(RunCtx& c, BodyHost& host, int64_t trips, const Dims* slice);

 private:
  Status learn(RunCtx& c, BodyHost& host, const Dims& slice);
  Status grow(RunCtx& c, BodyHost& host, int64_t trip);
  Status check_axis() const;
  StatusOr<Dims> result_dims(int64_t trips, Dims slice) const;
  std::byte* base(const RunCtx& c) const;
  std::byte* place(const RunCtx& c, int64_t trip) const;  // of a slice that lies in one piece
  Status write(RunCtx& c, BodyHost& host, int64_t trip, const Tensor& slice) const;

  const StackedForm* form_ = nullptr;
  int64_t trips_ = -1, most_ = 0;
  bool known_ = false;  // the dims of a slice
  bool fixed_ = false;  // the result's memory is the output
  Dims slice_;
  int64_t outer_ = 1;     // slices lie in so many pieces
  int64_t capacity_ = 0;  // slices that buffer_ has room for
  Tensor buffer_;         // grown so far: slices one after the other
  int64_t width_ = 0;     // bytes of an element
};

}  // namespace forethought
