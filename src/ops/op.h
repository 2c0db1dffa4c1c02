// How an operator is written: one struct with its attributes, shape rule and kernel. Everything else is derived from
// it.
//
//   struct Trilu {
//     bool upper = true;
//     static constexpr OpName name{"Trilu"};
//     static constexpr auto attrs = std::tuple{attr("upper", &Trilu::upper)};
//     static constexpr Traits traits{.min_inputs = 1, .max_inputs = 2, .in = {kPlain, DType::kInt64}};
//     Status infer(InferCtx&) const;                                     // required
//     Status run(RunCtx&) const;                                         // unless choose() always returns an instance
//     StatusOr<KernelFacts> choose(const ChooseCtx&) const;              // optional: kernel choice, aliases, scratch …
//     StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx&) const;  // optional: packed constants
//     bool accepts(LayoutQuery&) const;                                  // optional: layouts other than plain
//     bool takes_view(…) const; std::optional<ViewUnit> gives_view(…) const;  // optional: strided views, as in Kernel
//   };
//   DEFINE_OP(Trilu)
//
// and one line OP(Trilu) in operators.inc.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/operator.h"
#include "kernel_api/kernel.h"

namespace forethought {

struct OpName {
  std::string_view type;
  std::string_view domain = "";
};

struct Traits {
  int min_inputs = 1;
  int max_inputs = 1;  // kVariadic: any number
  int min_outputs = 1;
  int max_outputs = 1;
  std::array<TypeSet, 6> in{};  // allowed element types by input; an empty set: not checked; the last non-empty repeats
  uint32_t may_overwrite = 0;   // bit per input: output 0 may be written over it where shape, type and layout agree
  uint32_t contents = 0;        // bit per input: Kernel::contents()
  bool foldable = true;         // may run at load on constants
  bool elementwise = false;     // output 0 in any layout that all inputs of its shape share; single elements broadcast
  uint32_t strided = 0;         // bit per input: may come as a strided view in rows (Kernel::takes_view)
};
constexpr int kVariadic = 1 << 20;

// --- Attributes: a name and a member. The member's initial value is the default.
template <typename S, typename T>
struct Attr {
  std::string_view name;
  T S::*member;
  bool required;
};
template <typename S, typename T>
constexpr Attr<S, T> attr(std::string_view name, T S::*member) {
  return {name, member, false};
}
template <typename S, typename T>
constexpr Attr<S, T> required(std::string_view name, T S::*member) {
  return {name, member, true};
}

// Reads one attribute into a field; the error names the attribute. Field types: bool, int64_t, int, float, std::string,
// DType (from its number), Tensor, ValueType, vectors of int64_t, float, std::string, and std::optional of these.
Status read_attribute(const AttributeValue& v, bool* out);
Status read_attribute(const AttributeValue& v, int64_t* out);
Status read_attribute(const AttributeValue& v, float* out);
Status read_attribute(const AttributeValue& v, std::string* out);
Status read_attribute(const AttributeValue& v, DType* out);
Status read_attribute(const AttributeValue& v, Tensor* out);
Status read_attribute(const AttributeValue& v, ValueType* out);
Status read_attribute(const AttributeValue& v, std::vector<int64_t>* out);
Status read_attribute(const AttributeValue& v, std::vector<float>* out);
Status read_attribute(const AttributeValue& v, std::vector<std::string>* out);
template <typename T>
Status read_attribute(const AttributeValue& v, std::optional<T>* out) {
  out->emplace();
  return read_attribute(v, &**out);
}

// --- What the list of operators holds.
struct OpDef {
  OpName name;
  Traits traits;
  std::vector<std::string_view> attributes;
  StatusOr<std::shared_ptr<const Operator>> (*bind)(const GraphNode& node) = nullptr;
};
std::span<const OpDef* const> op_defs();  // sorted as in operators.inc
const OpDef* find_op(std::string_view domain, std::string_view type);
const OperatorLibrary& operator_library();

// Checks arity against the traits and that each attribute is one of the operator's.
Status check_node(const OpDef& def, const GraphNode& node);

// Those of the inputs in `mask` that are like output 0 in shape, layout and width, so that it may be written over them.
uint32_t overwritable(uint32_t mask, const ChooseCtx& ctx);
// The facts of an operator that runs itself: overwrites where the traits and the operands allow.
KernelFacts default_facts(const OpName& name, const Traits& traits, const ChooseCtx& ctx);
// Whether default_facts() would give `facts` again, which it gave for other dims.
bool defaults_hold(const Traits& traits, const ChooseCtx& ctx, const KernelFacts& facts);
// The layout rule of Traits::elementwise.
bool accepts_elementwise(LayoutQuery& query);

template <typename S>
const OpDef& op_def_of();

template <typename S>
class BoundOperator final : public Operator, public Kernel {
 public:
  explicit BoundOperator(S op) : op_(std::move(op)) {}
  Status infer(InferCtx& ctx) const override { return op_.infer(ctx); }
  bool foldable() const override { return S::traits.foldable; }
  const Kernel* kernel() const override { return this; }
  bool accepts(LayoutQuery& query) const override {
    if constexpr (requires { op_.accepts(query); }) {
      return op_.accepts(query);
    } else {
      return S::traits.elementwise && accepts_elementwise(query);
    }
  }
  StatusOr<std::vector<PackSpec>> prepare(const PrepareCtx& ctx) const override {
    if constexpr (requires { op_.prepare(ctx); }) {
      return op_.prepare(ctx);
    } else {
      return std::vector<PackSpec>{};
    }
  }
  uint32_t contents() const override { return S::traits.contents; }
  bool takes_view(const PrepareCtx& ctx, int input, ViewUnit unit, int readers) const override {
    if constexpr (requires { op_.takes_view(ctx, input, unit, readers); }) {
      return op_.takes_view(ctx, input, unit, readers);
    } else {
      return unit == kRowUnit && has_bit(S::traits.strided, static_cast<size_t>(input));
    }
  }
  std::optional<ViewUnit> gives_view(const PrepareCtx& ctx, int out, ViewUnit unit, int rank) const override {
    if constexpr (requires { op_.gives_view(ctx, out, unit, rank); }) {
      return op_.gives_view(ctx, out, unit, rank);
    } else {
      return std::nullopt;
    }
  }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const override {
    if constexpr (requires { op_.choose(ctx); }) {
      return op_.choose(ctx);
    } else {
      return default_facts(S::name, S::traits, ctx);
    }
  }
  Refit refit(const ChooseCtx& ctx, const KernelFacts& facts, const Runnable& earlier) const override {
    if constexpr (requires { op_.refit(ctx, earlier); }) {
      return op_.refit(ctx, earlier);
    } else if constexpr (!requires { op_.choose(ctx); }) {
      return {.holds = defaults_hold(S::traits, ctx, facts)};
    } else {
      return {};
    }
  }
  Status run(RunCtx& ctx) const override {
    if constexpr (requires { op_.run(ctx); }) {
      return op_.run(ctx);
    } else {
      return internal("this operator runs through instances only");
    }
  }
  const S& op() const { return op_; }

 private:
  S op_;
};

// The attribute struct of a bound node, or null if it is another operator: `if (const Conv* c = op_cast<Conv>(node))`.
template <typename S>
const S* op_cast(const GraphNode& node) {
  const auto* bound = dynamic_cast<const BoundOperator<S>*>(node.impl.get());
  return bound ? &bound->op() : nullptr;
}

template <typename S>
StatusOr<S> parse_attributes(const GraphNode& node) {
  S op;
  Status status = absl::OkStatus();
  auto read = [&](const auto& a) {
    if (!status.ok()) return;
    const AttributeValue* v = node.attributes.find(a.name);
    if (v) {
      status = with_context(read_attribute(*v, &(op.*(a.member))),
                            absl::StrCat("attribute '", absl::string_view(a.name.data(), a.name.size()), "'"));
    } else if (a.required) {
      status = invalid(absl::StrCat("attribute '", absl::string_view(a.name.data(), a.name.size()), "' is missing"));
    }
  };
  std::apply([&](const auto&... a) { (read(a), ...); }, S::attrs);
  if (!status.ok()) return status;
  if constexpr (requires { op.init(node); }) RETURN_IF_ERROR(op.init(node));  // checks across attributes
  return op;
}

template <typename S>
StatusOr<std::shared_ptr<const Operator>> bind_node(const GraphNode& node) {
  RETURN_IF_ERROR(check_node(op_def_of<S>(), node));
  ASSIGN_OR_RETURN(S op, parse_attributes<S>(node));
  return std::shared_ptr<const Operator>(std::make_shared<BoundOperator<S>>(std::move(op)));
}

template <typename S>
OpDef make_op_def() {
  OpDef d{S::name, S::traits, {}, &bind_node<S>};
  std::apply([&](const auto&... a) { (d.attributes.push_back(a.name), ...); }, S::attrs);
  return d;
}

}  // namespace forethought

// Defines the operator; its line in operators.inc makes it known.
#define DEFINE_OP(S)                                       \
  template <>                                              \
  const OpDef& op_def_of<S>() {                            \
    static const OpDef* def = new OpDef(make_op_def<S>()); \
    return *def;                                           \
  }                                                        \
  const OpDef& op_def_##S() { return op_def_of<S>(); }
