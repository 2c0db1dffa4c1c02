// Watches runs step by step: no step finds an input spoilt or not made, writes outside its outputs, or reads freed
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/profile.h"

namespace forethought {

// A sink for tests and `forethought check --shadow`, of one run at a time. It keeps a copy of every value when its step
// made it and of the whole slab after each step, knows from the program alone which values are read later, and fills
// all other bytes of the slab with `poison`, so that a kernel that reads what nobody made, or what is dead, shows by
// another result. Bodies of control flow are watched like the main graph. Not watched: programs of several lanes, whose
// steps overlap (the planner's own shadow test runs those), and steps that run on a device.
class ShadowSink final : public StepSink {
 public:
  explicit ShadowSink(std::byte poison) : poison_(poison) {}

  void on_step(const StepEvent& event) override;

  // What went wrong, a sentence each; empty: nothing.
  const std::vector<std::string>& faults() const { return faults_; }
  int64_t steps_watched() const { return steps_; }

 private:
  struct Span {
    int64_t begin, end;
  };
  // A graph or body that runs; one for each depth.
  struct Level {
    const Program* program = nullptr;
    int32_t last = -1;  // the step that ran last
    std::byte* slab = nullptr;
    std::vector<int32_t> last_read;            // by value; -1: never read
    std::vector<std::vector<std::byte>> made;  // by value: what its step made; empty: not made, or not watched
    std::vector<const std::byte*> at;          // by value: where
    std::vector<std::byte> image;              // of the slab after the last step; empty before the first
  };

  static void restart(Level& level, const Program* program);
  static void find_slab(Level& level, const StepEvent& event);
  void check_strays(const Level& level, const StepEvent& event);
  static void keep_outputs(Level& level, const StepEvent& event);
  void poison_dead(Level& level, int32_t step);
  void check_inputs(const Level& level, int32_t step);

  const std::byte poison_;
  std::vector<Level> levels_;
  std::vector<std::string> faults_;
  int64_t steps_ = 0;
};

}  // namespace forethought
