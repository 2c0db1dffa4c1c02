// A session as Python holds it, and its runs.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "convert.h"
#include "exec/profile.h"
#include "session/session.h"

namespace forethought::python {

struct PythonSession {
  ~PythonSession();

  std::unique_ptr<Session> session;
  std::atomic<int64_t> input_copies{0}, input_copied_bytes{0};
  ProfileRecorder profile;  // of the runs, if the options ask for it
};

// Runs once. `names`: an iterable of outputs, empty for all; `inputs`: values by name.
nb::list run(PythonSession& self, nb::handle names, nb::dict inputs, const CancelFlag* cancel);
// The same, with HeldValues out; `bound[i]` is None or the value into whose memory output i goes.
nb::list run_values(PythonSession& self, nb::handle names, nb::dict inputs, nb::list bound, const CancelFlag* cancel);
// The same on another thread, which then calls callback(results, user_data, error).
void run_async(nb::handle session, nb::handle names, nb::dict inputs, nb::handle callback, nb::handle user_data,
               const CancelFlag* cancel);

// A value that the session is to read in many runs: over the array's memory, or over a copy in the I/O arena.
HeldValue value_for_input(PythonSession& self, nb::handle name, nb::handle object);
// Zeros in the I/O arena.
HeldValue session_value(PythonSession& self, nb::handle shape, int dtype);

}  // namespace forethought::python
