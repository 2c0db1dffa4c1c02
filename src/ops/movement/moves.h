// What operators that only move elements share: a plan is a list of strided copies from inputs to outputs, made from
// shapes (and small inputs' contents) by the same function at load and at run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/function_ref.h"
#include "kernels/movement/strided_copy.h"
#include "ops/op.h"

namespace forethought::movement {

// Types of whole bytes and strings: what goes by element width.
constexpr TypeSet kMoved = kPlain | DType::kComplex64 | DType::kComplex128 | DType::kFloat8E4M3FN |
                           DType::kFloat8E4M3FNUZ | DType::kFloat8E5M2 | DType::kFloat8E5M2FNUZ | DType::kFloat8E8M0;
// And the packed ones, for operators that keep all elements in their order: whole() moves their bytes.
constexpr TypeSet kKept = kMoved | DType::kUint4 | DType::kInt4 | DType::kFloat4E2M1 | DType::kUint2 | DType::kInt2;

// An input or output as choose() and run() both know it.
struct Piece {
  bool present = false;
  bool known = false;  // its dims are
  DType dtype = DType::kUndefined;
  Layout layout;
  std::span<const int64_t> dims;
  const void* contents = nullptr;    // null: not known yet
  std::span<const int64_t> strides;  // of a strided view; empty: row-major
  bool may_stride = false;           // of an output, as in Operand
  std::string_view dense_because;    // the same
  int64_t elements() const { return element_count(dims).value_or(0); }
};
struct View {
  absl::InlinedVector<Piece, 6> in, out;
  bool has(size_t i) const { return i < in.size() && in[i].present; }
  // The elements of input i, an i32 or i64 tensor whose contents are known.
  absl::InlinedVector<int64_t, 8> ints(size_t i) const;
  // Elements between neighbours along each dim of input i, whose layout is plain.
  Dims steps(size_t i) const;
};
View view_of(const ChooseCtx& ctx);
View view_of(const RunCtx& ctx);

struct Move {
  int in = 0, out = 0;
  int64_t in_at = 0, out_at = 0;  // element offsets
  kernels::Element element = kernels::Element::w1;
  kernels::StridedCopy copy;
  std::vector<int64_t> strides;  // of the output, if it is a strided view; then out_at is 0
};
using Moves = absl::InlinedVector<Move, 2>;

// Runs the moves, each over fixed blocks. One whose bytes already lie in place (a view or window that the planner
// honoured) is skipped.
void run_moves(RunCtx& ctx, std::span<const Move> moves);

// Output `out` as what lies from element `in_at` of input `in` on, `steps` elements apart along each dim of the output:
// a strided view where the output may be one and these are not one run, else a copy.
Move pick(const View& view, int in, int out, int64_t in_at, std::span<const int64_t> steps);
// A move of all of input `in`, of a type of kKept, as it lies, to output `out`: Reshape and its like. Of a strided view
// it is one again, if the output may be and steps can say it.
Move whole(const View& view, int in, int out);

// Fills in kernel name, instance and views (an output that is one contiguous run of one input, or a strided view of
// it). Strings are objects and have no views.
KernelFacts facts_of(const OpName& name, const View& view, Moves moves);
// Whether facts_of() made it; then refit_moves() is for other dims.
bool is_of_moves(const Runnable& earlier);
Refit refit_moves(const Runnable& earlier, Moves moves);

// Infers the output shapes from the contents of the inputs and takes memory for the outputs in `mask`.
Status size_outputs(RunCtx& ctx, uint32_t mask, FunctionRef<Status(InferCtx&)> infer);

// The outputs whose size choose() was not told.
uint32_t unknown_outputs(const ChooseCtx& ctx);

// An operator whose outputs are sized at run: infers, takes memory, then runs as if all had been known.
template <typename S>
class SizedAtRun final : public Runnable {
 public:
  SizedAtRun(S op, uint32_t mask) : op_(std::move(op)), mask_(mask) {}
  Status run(RunCtx& ctx) const override {
    RETURN_IF_ERROR(size_outputs(ctx, mask_, [&](InferCtx& c) { return op_.infer(c); }));
    return op_.run(ctx);
  }

 private:
  S op_;
  uint32_t mask_;
};

// If some output's size is not known: the facts that let run() take it. Else nothing.
template <typename S>
std::optional<KernelFacts> sized_at_run(const S& op, const ChooseCtx& ctx) {
  const uint32_t mask = unknown_outputs(ctx);
  if (mask == 0) return std::nullopt;
  KernelFacts facts = default_facts(S::name, S::traits, ctx);
  facts.reason = "the size of an output is known only at run";
  facts.sized_at_run = mask;
  facts.instance = std::make_shared<SizedAtRun<S>>(op, mask);
  return facts;
}

// choose(), refit() and run() of an operator S with `StatusOr<Moves> moves(const View&) const` and `kContents`, the
// inputs (a bit each) whose contents moves() reads.
template <typename S>
StatusOr<KernelFacts> choose_moves(const S& op, const ChooseCtx& ctx) {
  if (auto facts = sized_at_run(op, ctx)) return *std::move(facts);
  const View view = view_of(ctx);
  for (size_t i = 0; i < view.in.size(); ++i) {
    if (!has_bit(S::kContents, i) || !view.in[i].present || view.in[i].contents) continue;
    KernelFacts facts = default_facts(S::name, S::traits, ctx);
    facts.reason = "what to copy is known only at run";
    return facts;
  }
  ASSIGN_OR_RETURN(Moves moves, op.moves(view));
  return facts_of(S::name, view, std::move(moves));
}
// The Kernel's answers of an operator that keeps all elements of input 0 in their order under other dims: it hands a
// strided view on, which its only reader may as well copy where steps cannot say it.
struct HandsViewOn {
  bool takes_view(const PrepareCtx&, int input, ViewUnit, int readers) const { return input == 0 && readers == 1; }
  std::optional<ViewUnit> gives_view(const PrepareCtx&, int, ViewUnit unit, int) const {
    return unit == kRowUnit ? kRowUnit : kNoUnit;
  }
};
// The first of one that picks elements of input 0, as a view of the view or a copy.
struct PicksFromView {
  bool takes_view(const PrepareCtx&, int input, ViewUnit, int) const { return input == 0; }
};
template <typename S>
Refit refit_moves(const S& op, const ChooseCtx& ctx, const Runnable& earlier) {
  if (!is_of_moves(earlier)) return {};
  StatusOr<Moves> moves = op.moves(view_of(ctx));
  return moves.ok() ? refit_moves(earlier, *std::move(moves)) : Refit();
}
template <typename S>
Status move_now(const S& op, RunCtx& ctx) {
  ASSIGN_OR_RETURN(const Moves moves, op.moves(view_of(ctx)));
  run_moves(ctx, moves);
  return absl::OkStatus();
}

// --- Shape rules' helpers.
// Sets type and shape of output `out` after input 0's type; refuses shapes whose elements cannot be counted.
Status set_moved(InferCtx& c, int out, SymShape shape);
// Hands input 0's followed elements on to output 0 unchanged: for operators that keep their order.
void keep_value(InferCtx& c);
// How many elements the 1-d input i has, if that is known.
std::optional<int64_t> length_of(InferCtx& c, int i);
// Axes of [-rank, rank) as axes of [0, rank), appended to `out`; refuses those outside and those named twice.
using Axes = absl::InlinedVector<int, 8>;
Status normalise_axes(std::span<const int64_t> axes, int rank, Axes* out);

}  // namespace forethought::movement
