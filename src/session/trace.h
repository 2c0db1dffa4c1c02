// Records runs step by step and writes them in the trace format that Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "exec/profile.h"

namespace forethought {

// A sink for runs of a session (RunOptions::sink). Thread safe, but only one run may be under way between begin_run()
// and end_run().
class TraceRecorder final : public StepSink {
 public:
  using Bytes = std::vector<std::pair<std::string, int64_t>>;
  // Parts of the memory in use at this moment; asked after each step of the main graph, on the thread that ran it.
  using Counters = std::function<Bytes()>;
  explicit TraceRecorder(Counters counters = {}) : counters_(std::move(counters)) {}

  void begin_run();
  void on_step(const StepEvent& event) override;
  void end_run();

  // The trace of the runs that have ended, as JSON: one row a lane with its steps (bodies inside the step that runs
  // them), what they wait for, arrows from the step that gives a notification to the one that waits for it, a row of
  // runs, the bytes that the plan says are live at each step, and the parts of the memory in use. Times are
  // microseconds since the first begin_run(). Empties the recorder.
  std::string take(std::string_view model);

 private:
  struct Step {
    std::string name, kernel;
    std::vector<std::string> inputs, outputs;  // types and dims
    std::vector<int32_t> waits, signals;
    int64_t begin_ns = 0, end_ns = 0;
    int32_t step = 0, depth = 0, lane = 0;
    int32_t thread = 0;        // a small number for each thread that was seen
    int32_t root_lane = 0;     // the main graph's lane whose step this runs in; its own at depth 0
    int64_t planned_live = 0;  // at depth 0
    Bytes memory;
  };
  struct Run {
    int64_t begin_ns = 0, end_ns = 0;
    std::vector<Step> steps;
  };
  void place_bodies(const Step& around);

  const Counters counters_;
  std::mutex mutex_;
  std::vector<Run> runs_;
  Run run_;                                // under way
  std::vector<size_t> unplaced_;           // steps of bodies in run_ whose main step is not over yet
  const Program* live_program_ = nullptr;  // of the run under way: whose live bytes live_ has
  std::vector<int64_t> live_;
  std::map<std::thread::id, int32_t> threads_;
};

}  // namespace forethought
