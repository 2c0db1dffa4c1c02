// Ctrl-C ends a run: a signal that comes while the main thread is in one cancels it.
#pragma once

#include <nanobind/nanobind.h>

#include "threading/cancel_flag.h"

namespace forethought::python {

// Stands around a run, made and destroyed with the interpreter's lock held. On other threads than the main one, and
// where the program has a handler of its own for SIGINT, it does nothing. A run pays for it a few nanoseconds, and
// every ten milliseconds a system call that asks whether the handler is still in place.
class Interruptible {
 public:
  // `asked` is the flag by which the caller can cancel the run; null: there is none.
  explicit Interruptible(const CancelFlag* asked);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // What the run looks at.
  const CancelFlag& flag() const { return *flag_; }
  // After the run: throws what Python's handler raises (KeyboardInterrupt) if a signal came.
  void finish();

 private:
  bool stop();  // listens no more; true if a signal came

  const CancelFlag* flag_;
  bool listening_ = false;
  bool was_cancelled_ = false;
};

}  // namespace forethought::python
