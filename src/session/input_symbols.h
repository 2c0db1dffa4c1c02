// Checks what one input alone cannot tell: that a symbol in the shapes of inputs is one number in each run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "session/pipeline.h"

namespace forethought {

// One name in the inputs' shapes stands for one number in each run: inference and passes have relied on it.
class InputSymbols {
 public:
  InputSymbols() = default;
  explicit InputSymbols(const std::vector<NodeArg>& inputs);
  // Ranks and known dims have been checked before.
  Status check(const std::vector<NodeArg>& inputs, std::span<const Value> values) const;

 private:
  struct Place {
    int input, axis;
  };
  struct Tie {
    Place place;
    int symbol;  // in first_; -1: an expression
  };
  std::vector<Place> first_;  // where each symbol stands alone for the first time
  std::vector<std::string> names_;
  std::vector<Tie> ties_;
};

}  // namespace forethought
