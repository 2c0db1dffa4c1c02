// A run that goes on behind its caller's back, and the handle by which to wait for it, cancel it and get its outputs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "session/options.h"
#include "tensor/value.h"
#include "threading/runner.h"

namespace forethought {

class Session;

// What a run works on, owned by it until it is over. A feed or output without an owner of its bytes is borrowed: its
// bytes must stay until then.
struct AsyncRequest {
  std::vector<std::pair<std::string, Value>> feeds;
  std::vector<std::string> output_names;  // none: all outputs, in order
  std::vector<Value> outputs;             // memory for some of them, as for Session::run; may be shorter
  RunOptions options;                     // its flag, if it has one, is the one that cancel() sets
};

// Copies stand for the same run. All of them may be dropped at any time: the run goes on, its callback is called, and
// what it made goes with the last handle. Thread safe, but outputs() and take() are for one thread at a time. In a
// process that was forked meanwhile, the run is that of the other one: wait() says so unless it was over.
class AsyncRun {
 public:
  // Called once, when the run is over, on the thread that ran it; must not throw. It may use the handle, start runs and
  // drop anything, the session included. Not called if the process exits first.
  using Callback = std::function<void(AsyncRun run)>;

  AsyncRun() = default;  // of no run: may only be assigned to
  bool over() const;
  // Returns the run's status when it is over; its callback may still be under way. If no thread has begun the run, it
  // runs here.
  Status wait() const;
  // Waits for at most this long; whether the run is over.
  bool wait_for(std::chrono::nanoseconds time) const;
  // Ends the run within one step; its status is then that of a cancelled run. Without effect if it is over.
  void cancel() const;
  // What the run made, in the order of the request's names; empty Values after an error. Once it is over.
  std::vector<Value>& outputs() const;
  std::vector<Value> take() const { return std::move(outputs()); }

 private:
  friend class Session;
  class State;
  struct Handle;
  explicit AsyncRun(const std::shared_ptr<State>& state);
  // `runner` outlives no run; `session` must not go before its runs are over.
  static StatusOr<AsyncRun> start(Runner& runner, Session& session, AsyncRequest request, Callback callback);

  std::shared_ptr<const Handle> handle_;
};

}  // namespace forethought
