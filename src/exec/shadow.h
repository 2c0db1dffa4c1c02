// Watches runs step by step: no step finds an input spoilt or not made, writes outside its outputs, reads freed bytes,
// or takes bytes over from a step that is not surely through with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/profile.h"

namespace forethought {

// A sink for tests and `forethought check --shadow`, of one run at a time. It keeps a copy of every value as its step
// made it, and of the whole slab as steps left it; it knows from the program alone who reads a value and which steps
// are over before others begin (by lanes and notifications, not by the order of the list or the clock), and fills all
// bytes of the slab that nobody needs with `poison`, so that a kernel that reads what nobody made, or what is dead,
// shows by another result. Values whose sizes only the run tells, several lanes and bodies are watched like the rest;
// of steps that run on a device, what they read and write on the host, and where in its memory.
class ShadowSink final : public StepSink {
 public:
  explicit ShadowSink(std::byte poison);
  ~ShadowSink() override;

  void on_run(const Program& program, int32_t depth, const SlabPlace& slab) override;
  void on_begin(const StepEvent& event) override;
  void on_step(const StepEvent& event) override;

  // Once the run is over: what went wrong, a sentence each; empty: nothing.
  const std::vector<std::string>& faults() const { return faults_; }
  int64_t steps_watched() const { return steps_; }

 private:
  class Graph;
  Graph* find(const StepEvent& event);

  const std::byte poison_;
  std::mutex mutex_;                                         // graphs in several lanes call at the same time
  std::map<const Program*, std::unique_ptr<Graph>> graphs_;  // of the run under way
  std::vector<std::string> faults_;
  int64_t steps_ = 0;
};

}  // namespace forethought
