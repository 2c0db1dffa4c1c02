#include "providers/cpu/cpu_provider.h"

#include "base/cpu.h"
#include "ops/op.h"

namespace forethought {
namespace {

class CpuProvider final : public Provider {
 public:
  std::string_view name() const override { return kCpuProvider; }
  Device device() const override { return {}; }
  Capability capability(const Graph& graph, std::span<const NodeId> free) const override {
    Capability can;
    Claim claim;
    claim.reason = absl::StrCat("the host has a kernel (", forethought::name(active_isa()), ")");
    for (NodeId id : free) {
      const Status s = operator_library().supports(graph, graph.node(id));
      if (s.ok()) {
        claim.nodes.push_back(id);
      } else {
        can.refusals.push_back({id, std::string(s.message())});
      }
    }
    can.claims.push_back(std::move(claim));
    return can;
  }
};

}  // namespace

std::unique_ptr<Provider> make_cpu_provider() { return std::make_unique<CpuProvider>(); }

void register_cpu_provider() {
  static const bool once = [] {
    return ProviderRegistry::global()
        .add(std::string(kCpuProvider),
             [](const ProviderOptions&) -> StatusOr<std::unique_ptr<Provider>> { return make_cpu_provider(); })
        .ok();
  }();
  static_cast<void>(once);
}

}  // namespace forethought
