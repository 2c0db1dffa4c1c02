// Sessions from texts, for tests: the same graph at every optimisation level and planned or not.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/profile.h"
#include "session/session.h"

namespace forethought {

// A session of a text graph; fails the test with the status if there is none.
std::unique_ptr<Session> session_of(std::string_view text, const SessionOptions& options = {});

// Runs a graph at each level, packed, in slots and unplanned, on 1 and 2 threads, with every plan validated: twice, and
// twice more watched by a shadow that fills free memory in two ways (exec/shadow.h). Requires no fault and the same
// bits everywhere (the levels may differ by `tolerance`, relative to 1 + |value|). Returns the outputs.
std::vector<Value> run_everywhere(std::string_view text, const std::vector<Value>& inputs, double tolerance = 0);

// The same for sessions made in any other way, from a file for instance.
using SessionMaker = std::function<StatusOr<std::unique_ptr<Session>>(const SessionOptions&)>;
std::vector<Value> run_everywhere(const SessionMaker& make, const std::vector<Value>& inputs, double tolerance = 0);

// Every level, packed, in slots and unplanned, on 1 and 2 threads, with plans validated: what run_everywhere goes
// through.
std::vector<SessionOptions> every_option();
std::string to_string(const SessionOptions& options);

// Sets the flag after so many steps; 0: at once, -1: never.
class CancelAfter final : public StepSink {
 public:
  CancelAfter(int steps, CancelFlag flag) : left_(steps), flag_(std::move(flag)) {
    if (steps == 0) flag_.cancel();
  }
  void on_step(const StepEvent&) override {
    ++seen;
    if (--left_ == 0) flag_.cancel();
  }
  std::atomic<int> seen{0};

 private:
  std::atomic<int> left_;
  CancelFlag flag_;
};

// In use now, by all roles.
int64_t live_bytes(const Session& session);
// The number in "(N bytes)" of what a refusal calls the least that works; -1: it names none.
int64_t least_of(const Status& refused);

std::vector<float> floats(const Value& v);
std::vector<int64_t> int64s(const Value& v);
Dims dims_of(const Value& v);

}  // namespace forethought
