// Runs one operator without a session, for tests: binds, infers, packs, chooses, runs; checks that inference and run
// agree.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

namespace forethought {

struct OpCase {
  std::string op;
  std::vector<Value> inputs;  // a none Value: skipped. With strides: a strided view
  Attributes attributes = {};
  int outputs = 1;
  std::string domain = "";
  // Inputs given as constants of the graph (bit per input): they are packed where the kernel asks for it.
  uint32_t constants = 0;
  // Gives outputs the memory of inputs wherever the facts allow it (views, overwrites and windows): they must not
  // change results.
  bool share = false;
  // Lets outputs be strided views. The results are given row-major.
  bool views = false;
  // Does not tell choose() the outputs' dims: they must be sized at run.
  bool sized_late = false;
  int workers = 2;
  std::vector<Layout> input_layouts = {};  // of tensors already given in that layout; empty: plain
  std::vector<Layout> output_layouts = {};
};

struct OpOutcome {
  std::vector<Value> outputs;
  KernelFacts facts;
};

// Fails as the runtime would (bind, supports, infer, prepare, choose, run), with the status of the first step that
// does. Inference is run twice: on dims as numbers with contents known, and with every input's dims as symbols; a
// result of the second that contradicts the real shape, or bounds it by less, is an internal error.
StatusOr<OpOutcome> run_case(const OpCase& c);

// The usual test: outputs[0] as a vector.
template <typename T>
std::vector<T> output_of(const OpOutcome& o, int i = 0) {
  const Tensor& t = o.outputs[i].tensor();
  return std::vector<T>(t.as<T>(), t.as<T>() + t.elements());
}

// A strided view row-major, and a row-major tensor as a strided view that lies in steps of so many elements.
StatusOr<Tensor> row_major(const Tensor& from);
StatusOr<Tensor> in_steps(const Tensor& from, std::span<const int64_t> strides);

Attributes attributes(std::vector<std::pair<std::string, AttributeValue>> items);

}  // namespace forethought
