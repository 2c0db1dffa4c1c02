// A run that goes on behind its caller's back.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "forethought/value.h"

FORETHOUGHT_BEGIN_NAMESPACE

// Copies stand for the same run. All may be dropped at any time: the run goes on, and its callback is called. Gives the
// same bits as Session::run.
class FORETHOUGHT_EXPORT AsyncRun {
 public:
  // Called once, when the run is over, on the thread that ran it; must not throw. It may start runs and drop anything.
  // Not called if the process exits first.
  using Callback = std::function<void(AsyncRun run)>;

  bool over() const;
  Status wait() const;                                 // what the run ended with, when it is over
  bool wait_for(std::chrono::nanoseconds time) const;  // at most so long; whether it is over
  void cancel() const;                                 // ends it within one step, with ErrorCode::cancelled
  // Waits; the outputs in the order that was asked for, or the error.
  Result<std::vector<Value>> outputs() const;

  struct Rep;  // the library's
  explicit AsyncRun(std::shared_ptr<Rep> rep) : rep_(std::move(rep)) {}

 private:
  std::shared_ptr<Rep> rep_;
};

FORETHOUGHT_END_NAMESPACE
