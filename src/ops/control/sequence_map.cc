// SequenceMap: runs its body once for each element of a sequence; what the bodies give is put in sequences.
#include "ops/control/body_run.h"
#include "ops/control/body_values.h"
#include "ops/op.h"

namespace forethought {
namespace {

class SequenceMapStep final : public Runnable {
 public:
  SequenceMapStep(int formals, std::vector<ValueType> elements) : formals_(formals), elements_(std::move(elements)) {}

  Status run(RunCtx& c) const override {
    const Sequence* first = c.in(0).object ? c.in(0).object->sequence() : nullptr;
    if (!first) return invalid("input 0 holds no sequence");
    const size_t count = first->items.size();
    BodyRuns::Lent lent(runs_);
    BodyRun& r = *lent;
    ASSIGN_OR_RETURN(r.host, BodyHost::of(c));
    r.in.resize(c.inputs.size());
    r.out.resize(elements_.size());
    std::vector<const Sequence*> sequences(c.inputs.size(), nullptr);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Value* object = c.inputs[i].object;
      sequences[i] = i < static_cast<size_t>(formals_) && object ? object->sequence() : nullptr;
      if (!sequences[i]) r.in[i] = borrow(c.inputs[i]);
      if (sequences[i] && sequences[i]->items.size() != count)
        return invalid(absl::StrCat("input ", i, " is a sequence of ", sequences[i]->items.size(),
                                    " elements, input 0 has ", count));
    }
    std::vector<std::shared_ptr<Sequence>> made(elements_.size());
    for (size_t o = 0; o < made.size(); ++o) {
      made[o] = std::make_shared<Sequence>();
      made[o]->element = elements_[o];
      made[o]->items.reserve(count);
    }
    for (size_t k = 0; k < count; ++k) {
      if (c.host->cancelled()) return cancelled(absl::StrCat("the run was cancelled at element ", k));
      for (size_t i = 0; i < sequences.size(); ++i)
        if (sequences[i]) r.in[i] = sequences[i]->items[k];
      for (Value& v : r.out) v = Value();
      if (Status s = r.once(); !s.ok()) return with_context(s, absl::StrCat("element ", k));
      for (size_t o = 0; o < made.size(); ++o) {
        Value v = r.result(o);
        if (!v.is_tensor()) return invalid(absl::StrCat("output ", o, " of the body is no tensor"));
        RETURN_IF_ERROR(own(*r.host, v));
        made[o]->element = ValueType::tensor(v.tensor().dtype);
        made[o]->items.push_back(std::move(v));
      }
    }
    for (size_t o = 0; o < made.size(); ++o)
      if (c.has_out(static_cast<int>(o)))
        RETURN_IF_ERROR(c.host->set_output(static_cast<int>(o), Value(std::shared_ptr<const Sequence>(made[o]))));
    return absl::OkStatus();
  }

 private:
  int formals_;
  std::vector<ValueType> elements_;  // of each output, for sequences without elements
  mutable BodyRuns runs_;
};

}  // namespace

struct SequenceMap {
  int formals = 0;
  std::vector<ValueType> elements;  // of each output, as the body declares it

  static constexpr OpName name{"SequenceMap"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{.max_inputs = kVariadic, .max_outputs = kVariadic, .foldable = false};

  Status init(const GraphNode& node) {
    if (node.bodies.size() != 1) return invalid("needs one body");
    const Graph& body = *node.bodies[0].second;
    formals = node.formal_inputs();
    if (body.inputs().size() != node.inputs.size())
      return invalid(absl::StrCat("the body takes ", static_cast<int>(body.inputs().size()) - node.captures,
                                  " inputs; ", formals, " are given"));
    if (node.outputs.size() > body.outputs().size())
      return invalid(absl::StrCat("has ", node.outputs.size(), " outputs; the body gives ", body.outputs().size()));
    for (ValueId v : body.outputs()) elements.push_back(body.value(v).type);
    return absl::OkStatus();
  }

  Status infer(InferCtx& c) const {
    if (!c.bodies()) return internal("bodies are needed to infer SequenceMap");
    if (!c.type(0).is_unknown() && c.type(0).kind() != ValueType::Kind::sequence)
      return invalid(absl::StrCat("input 0 is ", to_string(c.type(0)), ", not a sequence"));
    const SymShape open;
    const ValueType unknown;
    std::vector<InferInput> in(c.all_inputs().begin(), c.all_inputs().end());
    for (int i = 0; i < formals; ++i) {
      if (c.type(i).kind() != ValueType::Kind::sequence && !c.type(i).is_unknown()) continue;
      in[i] = {true, c.type(i).is_unknown() ? &unknown : c.type(i).inner(), &open, nullptr, nullptr};
    }
    ASSIGN_OR_RETURN(const std::vector<InferOutput> out, c.bodies()->infer(0, in));
    for (int o = 0; o < c.outputs(); ++o) {
      const ValueType& element = out[o].type.is_unknown() ? elements[o] : out[o].type;
      if (!element.is_unknown()) c.set_type(o, ValueType::sequence(element));
    }
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx&) const {
    KernelFacts facts;
    facts.kernel = "sequencemap";
    facts.instance = std::make_shared<SequenceMapStep>(formals, elements);
    return facts;
  }
};
DEFINE_OP(SequenceMap)

}  // namespace forethought
