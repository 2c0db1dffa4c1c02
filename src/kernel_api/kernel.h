// The implementation of one node: prepared once at load, chosen for shapes, run many times.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "kernel_api/facts.h"
#include "kernel_api/run_ctx.h"

namespace forethought {

// What other dims change of a choice, if that is all that they change.
struct Refit {
  bool holds = false;                        // false: choose() has to be asked
  std::shared_ptr<const Runnable> instance;  // null: the kernel itself runs
  size_t scratch_shared = 0, scratch_per_worker = 0;
  // Holds with this instance, if there is one.
  static Refit with(std::shared_ptr<const Runnable> instance) {
    const bool holds = instance != nullptr;
    return {holds, std::move(instance)};
  }
};

// An earlier choice as a T, if it is one.
template <typename T>
const T* instance_cast(const Runnable& earlier) {
  static_assert(std::is_final_v<T>);
  return &typeid(earlier) == &typeid(T) ? static_cast<const T*>(&earlier) : nullptr;
}

// Where the elements of a strided view lie side by side, as far as it is known without sizes: along which dim, counted
// from the last (0: as rows, 1: as columns of a matrix).
using ViewUnit = int;
constexpr ViewUnit kRowUnit = 0, kColumnUnit = 1, kNoUnit = -1;  // kNoUnit: along none

class Kernel : public Runnable {
 public:
  // Once at load; knows no shapes. What is to be packed, and how.
  virtual StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx&) const { return std::vector<PackSpec>{}; }
  // Whether an input, which nodes read `readers` times in all, may come as a strided view (Operand::strides) with this
  // unit. False is always right; true where that costs less than to copy it before.
  virtual bool takes_view(const PrepareCtx&, int /*input*/, ViewUnit /*unit*/, int /*readers*/) const { return false; }
  // The unit of output `out` as a strided view of input 0, which has `unit` and `rank` (-1: not known); nothing: it
  // gives none. Whether it does is for choose() to say, where Operand::may_stride allows.
  virtual std::optional<ViewUnit> gives_view(const PrepareCtx&, int /*out*/, ViewUnit /*unit*/, int /*rank*/) const {
    return std::nullopt;
  }
  // The inputs, a bit each, whose constants choose() and refit() look at; of others they are told none.
  virtual uint32_t contents() const { return 0; }
  // Pure: the same arguments give the same facts. Called at load for known shapes, and again for each new shape. Nodes
  // of one operator with equal attributes that get the same arguments share one choice, and with it the instance.
  virtual StatusOr<KernelFacts> choose(const ChooseCtx&) const = 0;
  // For operands that differ from those of an earlier choose() in the numbers of their dims alone: instance and scratch
  // as choose() would have them, if it would say the same in all other facts. `facts` are those of the earlier choice,
  // `earlier` is what runs by it. A plan for other sizes then keeps what it knows of the step.
  virtual Refit refit(const ChooseCtx&, const KernelFacts& /*facts*/, const Runnable& /*earlier*/) const { return {}; }
  // Runs when KernelFacts::instance is null.
  Status run(RunCtx&) const override { return internal("this kernel runs through instances only"); }
};

}  // namespace forethought
