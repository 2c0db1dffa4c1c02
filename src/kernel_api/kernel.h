// The implementation of one node: prepared once at load, chosen for shapes, run many times.
#pragma once

#include <vector>

#include "kernel_api/facts.h"
#include "kernel_api/run_ctx.h"

namespace forethought {

class Kernel : public Runnable {
 public:
  // Once at load; knows no shapes. What is to be packed, and how.
  virtual StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx&) const { return std::vector<PackSpec>{}; }
  // Pure: the same arguments give the same facts. Called at load for known shapes, and again for each new shape.
  virtual StatusOr<KernelFacts> choose(const ChooseCtx&) const = 0;
  // Runs when KernelFacts::instance is null.
  Status run(RunCtx&) const override { return internal("this kernel runs through instances only"); }
};

}  // namespace forethought
