// What the executor tells, step by step, to whoever asked: times for profiles, arguments for comparing runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace forethought {

struct Program;
class RunCtx;
struct SlabPlace;

struct StepEvent {
  const Program* program = nullptr;  // names the step: program->steps[step].name
  int32_t step = 0;
  int32_t depth = 0;                 // 0: the main graph; 1: a body of a control-flow node of it, and so on
  int64_t begin_ns = 0, end_ns = 0;  // of the steady clock
  const RunCtx* ctx = nullptr;       // the step's arguments, valid during the call; null if it ran on a device
};

// Runs with a sink are not free of overhead. Graphs and bodies that run in several lanes may call it at the same time.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // After each step that succeeded, on the thread that ran it; never twice at a time for one graph of a run.
  virtual void on_step(const StepEvent& event) = 0;
  // A graph (depth 0) or a body begins to run, its inputs bound, in this memory for its planned values.
  virtual void on_run(const Program& /*program*/, int32_t /*depth*/, const SlabPlace& /*slab*/) {}
  // Before each step of the host, on the thread that is about to run it; begin_ns and end_ns are 0.
  virtual void on_begin(const StepEvent& /*event*/) {}
};

// Keeps the times of all steps; several runs may share one.
class ProfileRecorder final : public StepSink {
 public:
  struct Entry {
    std::string name;
    int32_t step = 0, depth = 0, node = -1;
    int64_t begin_ns = 0, end_ns = 0;
    uint64_t thread = 0;  // a small number for each thread that was seen
  };
  void on_step(const StepEvent& event) override;
  std::vector<Entry> take();  // what came so far, in order; the recorder is empty afterwards

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace forethought
