// What runs each step of a program that is being compiled: chosen by its kernel, for an earlier step that does the
// same, or for the program before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "session/compiling.h"

namespace forethought {

class Choices {
 public:
  using Facts = std::vector<std::shared_ptr<const KernelFacts>>;  // by step

  explicit Choices(Compiling& w) : w_(w) {}
  void reserve(size_t steps);
  // Chooses for the last of the program's steps, which has its operands: sets what runs it, its scratch, and which of
  // its outputs have no size before the run. Steps are asked for in their order, each once.
  Status choose(const GraphLists::Step& n, const PreparedNode& prepared);
  // What was chosen for the step asked for last, and whether the program `like` has the same.
  const KernelFacts& last() const { return *(last_ ? last_ : (*w_.like->facts)[step_]); }
  bool last_is_likes() const { return last_ == nullptr; }
  // After all steps: shared with `like` where nothing is new.
  std::shared_ptr<const Facts> take_facts();

 private:
  using Found = StatusOr<std::shared_ptr<const KernelFacts>>;  // null: those of `like`

  Operand operand(const PreparedNode& n, int32_t v, size_t slot, bool input) const;
  // Operands of the step into in_ and out_; whether its inputs are known at run only.
  bool list_operands(const GraphLists::Step& n, const PreparedNode& prepared);
  // An earlier step of the same kind whose operands have the same types and dims, and that was chosen for; -1: none.
  int32_t twin_of(const GraphLists::Step& n) const;
  // Takes the choice for an earlier step.
  Found choose_as(int32_t twin, const GraphLists::Step& n, const PreparedNode& prepared, ProgramStep* step);
  // By the choice for `like`, or by asking the kernel.
  Found choose_anew(const GraphLists::Step& n, const PreparedNode& prepared, ProgramStep* step);
  // Whether the step has the operands that it has in the program `like`, the numbers of their dims apart.
  bool operands_are_likes(const GraphLists::Step& n) const;
  // The choice for `like` with other dims, if the kernel knows that nothing else is new.
  StatusOr<bool> refit(const GraphLists::Step& n, const PreparedNode& prepared, ProgramStep* step);
  // Asks the kernel; facts are empty where the run has to.
  StatusOr<KernelFacts> ask(const GraphLists::Step& n, const PreparedNode& prepared, bool dynamic, ProgramStep* step);
  // A copy between two devices is work of the device's lane. One whose source is bound where it should go is a view.
  void as_device_copy(ProgramStep* step, KernelFacts* facts);
  void keep(bool kept);

  Compiling& w_;
  Facts facts_;                              // empty while they are those of `like`
  size_t step_ = 0;                          // that was asked for last
  std::shared_ptr<const KernelFacts> last_;  // of it; null: those of `like`
  std::vector<Operand> in_, out_;            // of the step that is being asked for
  std::vector<int32_t> last_of_kind_;        // by kind: the last step that was chosen for itself
  std::vector<int32_t> before_of_kind_;      // by step: the one before it; -1: there is none
  std::vector<uint8_t> kept_;                // by step: the choice is that of `like` but for dims
};

}  // namespace forethought
