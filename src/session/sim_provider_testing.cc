#include "session/sim_provider_testing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernel_api/kernel.h"
#include "ops/op.h"

namespace forethought {
namespace {

// The host's operator without packs: a pack is memory of the host.
class SimOperator final : public Operator, public Kernel {
 public:
  explicit SimOperator(std::shared_ptr<const Operator> inner) : inner_(std::move(inner)) {}
  Status infer(InferCtx& ctx) const override { return inner_->infer(ctx); }
  bool foldable() const override { return inner_->foldable(); }
  const Kernel* kernel() const override { return this; }
  uint32_t contents() const override { return inner_->kernel()->contents(); }
  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const override {
    std::vector<Operand> inputs(ctx.inputs.begin(), ctx.inputs.end());
    for (Operand& o : inputs) o.packed = nullptr;
    ChooseCtx own = ctx;
    own.inputs = inputs;
    ASSIGN_OR_RETURN(KernelFacts facts, inner_->kernel()->choose(own));
    facts.kernel = absl::StrCat("simulated.", facts.kernel);
    return facts;
  }
  Status run(RunCtx& ctx) const override { return inner_->kernel()->run(ctx); }

 private:
  std::shared_ptr<const Operator> inner_;
};

bool sized_at_load(const SymShape& shape) {
  return shape.has_rank &&
         std::ranges::none_of(shape.dims, [](const Dim& d) { return d.is_unknown() || d.depends_on_data(); });
}

class SimProvider final : public Provider {
 public:
  SimProvider(std::string name, std::shared_ptr<SimDevice> device,
              std::function<bool(const Graph&, const GraphNode&)> claims)
      : name_(std::move(name)), device_(std::move(device)), claims_(std::move(claims)) {}
  std::string_view name() const override { return name_; }
  Device device() const override { return device_->device(); }
  std::shared_ptr<DeviceDriver> driver() const override { return device_; }
  Capability capability(const Graph& graph, std::span<const NodeId> free) const override {
    Capability can;
    for (NodeId id : free) {
      const std::string why = refusal(graph, graph.node(id));
      if (why.empty()) {
        can.claims.push_back({{id}, false, "", "the simulated device takes it"});
      } else {
        can.refusals.push_back({id, why});
      }
    }
    return can;
  }
  StatusOr<std::shared_ptr<const Operator>> bind(const GraphNode& node) const override {
    return std::shared_ptr<const Operator>(std::make_shared<SimOperator>(node.impl));
  }

 private:
  std::string refusal(const Graph& graph, const GraphNode& node) const {
    if (!claims_(graph, node)) return "not for this device";
    if (const Status s = operator_library().supports(graph, node); !s.ok()) return std::string(s.message());
    if (!node.bodies.empty()) return "has bodies";
    if (node.outputs.empty() || !node.outputs[0].valid()) return "has no first output";
    std::vector<ValueId> values(node.inputs.begin(), node.inputs.end());
    values.insert(values.end(), node.outputs.begin(), node.outputs.end());
    for (ValueId v : values) {
      if (!v.valid()) continue;
      const GraphValue& value = graph.value(v);
      if (value.type.is_object()) return absl::StrCat("'", value.name, "' is an object");
      if (!sized_at_load(value.shape)) return absl::StrCat("the size of '", value.name, "' is known only at run");
    }
    return "";
  }

  const std::string name_;
  const std::shared_ptr<SimDevice> device_;
  const std::function<bool(const Graph&, const GraphNode&)> claims_;
};

}  // namespace

SimProviderScope::SimProviderScope(std::string name, std::shared_ptr<SimDevice> device,
                                   std::function<bool(const Graph&, const GraphNode&)> claims)
    : name_(std::move(name)) {
  const Status added = ProviderRegistry::global().add(
      name_, [name = name_, device, claims](const ProviderOptions&) -> StatusOr<std::unique_ptr<Provider>> {
        return std::make_unique<SimProvider>(name, device, claims);
      });
  EXPECT_TRUE(added.ok()) << added;
}

SimProviderScope::~SimProviderScope() { ProviderRegistry::global().remove(name_); }

SessionOptions with_provider(const std::string& name, SessionOptions options) {
  options.providers.insert(options.providers.begin(), {name, {}});
  return options;
}

}  // namespace forethought
