// States that Loop and Scan carry from trip to trip, without copies: a trip reads them where the last one left them and
// writes to memory that no state lies in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel_api/body_host.h"
#include "kernel_api/facts.h"

namespace forethought {

// Where planned states live, decided for shapes. Each has two homes: the node's output and a part of its scratch.
// States of equal size lend each other theirs, since a body may give one the value of another.
struct StateHomes {
  struct State {
    bool planned = false;
    int64_t bytes = 0;
    size_t scratch_offset = 0;
  };
  std::vector<State> states;
  // Of outputs [0, states) of the node; adds what it needs to `scratch`.
  static StatusOr<StateHomes> plan(std::span<const Operand> outputs, int states, size_t* scratch);
};

// The states of one run. Keeps its memory between runs.
class States {
 public:
  // `in`: where the body reads the states; holds the initial values.
  void begin(const StateHomes& homes, std::span<Value> in);

  // Gives `out` the memory that this trip writes to, for planned states; none for the others. `to_output`: into the
  // node's outputs where that can be: so the last trip finds them free if calls alternate.
  void offer(const RunCtx& c, bool to_output, std::span<Value> out);

  // Takes what the trip made as the states of the next: `passed` as the host left it for the states. `inputs`: all
  // inputs of the body; of these the first `scalars` change with each trip and must be copied.
  Status turn(RunCtx& c, BodyHost& host, std::span<const Value> inputs, size_t scalars, std::span<Value> out,
              std::span<const int32_t> passed);

  // Brings the states to the node's outputs.
  Status finish(RunCtx& c, BodyHost& host);

 private:
  int free_home(int state, bool prefer_output) const;
  void* address(const RunCtx& c, int home) const;
  void take(int home) { taken_[static_cast<size_t>(home)] = true; }
  void mark_in_use();

  const StateHomes* homes_ = nullptr;
  std::span<Value> in_;
  std::vector<int>
      home_;  // of each state's value; home 2·s: the output of state s, 2·s + 1: its scratch; -1: elsewhere
  std::vector<int> target_;  // of the trip under way
  std::vector<bool> taken_;
  std::vector<Value> next_;
  std::vector<int> next_home_;
};

}  // namespace forethought
