// If: runs the body that the condition names; what it gives is what the node gives.
#include "ops/control/body_run.h"
#include "ops/control/body_values.h"
#include "ops/op.h"

namespace forethought {
namespace {

constexpr int kThen = 0, kElse = 1;  // bodies stand in the order of the operator's declaration

class IfStep final : public Runnable {
 public:
  IfStep(int results, std::vector<bool> planned) : results_(results), planned_(std::move(planned)) {}

  Status run(RunCtx& c) const override {
    const Arg& cond = c.in(0);
    if (cond.elements != 1) return invalid(absl::StrCat("the condition has ", cond.elements, " elements, not one"));
    const int body = *cond.as<uint8_t>() ? kThen : kElse;
    BodyRuns::Lent lent(runs_);
    BodyRun& r = *lent;
    ASSIGN_OR_RETURN(r.host, BodyHost::of(c));
    r.in.resize(c.inputs.size() - 1);
    r.out.resize(static_cast<size_t>(results_));
    for (size_t i = 0; i < r.in.size(); ++i) r.in[i] = borrow(c.inputs[i + 1]);
    for (size_t i = 0; i < planned_.size(); ++i)
      if (planned_[i]) r.out[i] = c.outputs[i].tensor();
    RETURN_IF_ERROR(r.once(body));
    for (size_t i = 0; i < planned_.size(); ++i) {
      const int slot = static_cast<int>(i);
      Value result = r.result(i);
      // A captured value that is given back as it is shares its bytes, where the size of the output was not planned.
      if (r.passed[i] >= 0 && !planned_[i] && c.has_out(slot)) {
        ASSIGN_OR_RETURN(result, c.host->escape(r.passed[i] + 1));
      }
      r.out[i] = Value();
      RETURN_IF_ERROR(deliver(c, *r.host, slot, planned_[i], std::move(result)));
    }
    return absl::OkStatus();
  }

 private:
  int results_;                // of each body
  std::vector<bool> planned_;  // by output of the node, which may leave out the last ones
  mutable BodyRuns runs_;
};

}  // namespace

struct If {
  static constexpr OpName name{"If"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.max_outputs = kVariadic, .in = {DType::kBool}, .foldable = false};

  int results = 0;

  Status init(const GraphNode& node) {
    if (node.bodies.size() != 2) return invalid("needs the bodies then_branch and else_branch");
    results = static_cast<int>(node.bodies[0].second->outputs().size());
    const size_t other = node.bodies[1].second->outputs().size();
    if (static_cast<size_t>(results) != other || node.outputs.size() > other)
      return invalid(
          absl::StrCat("has ", node.outputs.size(), " outputs; its branches give ", results, " and ", other));
    return absl::OkStatus();
  }

  // A branch that is never taken may be wrong, so with a known condition only the other one is looked at, and with an
  // unknown one a single broken branch costs knowledge, not the model.
  Status infer(InferCtx& c) const {
    if (!c.bodies()) return internal("bodies are needed to infer If");
    const std::span<const InferInput> captures = c.all_inputs().subspan(1);
    const std::optional<int64_t> cond = c.scalar_int(0);
    if (cond) {
      ASSIGN_OR_RETURN(const std::vector<InferOutput> taken, c.bodies()->infer(*cond ? kThen : kElse, captures));
      for (int i = 0; i < c.outputs(); ++i) take(c, i, taken[i]);
      return absl::OkStatus();
    }
    const auto a = c.bodies()->infer(kThen, captures), b = c.bodies()->infer(kElse, captures);
    if (!a.ok() && !b.ok()) return a.status();
    if (!a.ok() || !b.ok()) {
      for (int i = 0; i < c.outputs(); ++i) c.set_type(i, (a.ok() ? *a : *b)[i].type);
      return absl::OkStatus();
    }
    for (int i = 0; i < c.outputs(); ++i) {
      InferOutput both;
      RETURN_IF_ERROR(merge_type((*a)[i].type, (*b)[i].type, "output", i, &both.type));
      const SymShape &then = (*a)[i].shape, &other = (*b)[i].shape;
      both.shape = merge_shape(then, other);
      for (int d = 0; d < both.shape.rank(); ++d)
        if (both.shape.dims[d].is_unknown()) both.shape.dims[d] = c.data_dim(i, d, max(then.dims[d], other.dims[d]));
      take(c, i, both);
    }
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts;
    facts.kernel = "if";
    facts.host_inputs = 1;
    ASSIGN_OR_RETURN(facts.sized_at_run, sized_at_run(ctx.outputs));
    std::vector<bool> planned;
    for (const Operand& o : ctx.outputs) planned.push_back(is_planned(o));
    facts.instance = std::make_shared<IfStep>(results, std::move(planned));
    return facts;
  }

 private:
  static void take(InferCtx& c, int i, const InferOutput& o) {
    if (o.type.is_tensor()) {
      c.set(i, o.type.dtype(), o.shape);
      if (o.has_value) c.set_value(i, o.value);
    } else {
      c.set_type(i, o.type);
    }
  }
};
DEFINE_OP(If)

}  // namespace forethought
