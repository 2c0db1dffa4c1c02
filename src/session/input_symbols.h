// Checks what one input alone cannot tell: that a symbol in the shapes of inputs is one number in each run.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "session/pipeline.h"

namespace forethought {

// One name in the inputs' shapes stands for one number in each run: inference and passes have relied on it; and for no
// more than its bound, if it has one.
class InputSymbols {
 public:
  InputSymbols() = default;
  InputSymbols(const std::vector<NodeArg>& inputs, const std::map<std::string, int64_t>& bounds);
  // Ranks and known dims have been checked before.
  Status check(const std::vector<NodeArg>& inputs, std::span<const Value> values) const;

 private:
  static constexpr int64_t kNoBound = -1;
  struct Place {
    int input, axis;
  };
  struct Tie {
    Place place;
    int symbol;  // in first_; -1: an expression
  };
  std::vector<Place> first_;  // where each symbol stands alone for the first time
  std::vector<std::string> names_;
  std::vector<int64_t> bounds_;  // of each symbol; kNoBound: none
  std::vector<Tie> ties_;
};

}  // namespace forethought
