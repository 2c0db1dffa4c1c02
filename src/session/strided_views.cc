#include "session/strided_views.h"

#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "graph/operator.h"

namespace forethought {
namespace {

class ViewDecider {
 public:
  ViewDecider(const Graph& g, PreparedGraph* p) : g_(g), p_(*p), units_(g.value_capacity(), kRowUnit) {}

  void run() {
    for (const ValueId v : g_.inputs())
      for (const ViewUnit unit : {kRowUnit, kColumnUnit, kNoUnit})
        if (refusal(v, unit).empty()) p_.values[v.index].lent |= lent_bit(unit);
    for (const NodeId id : p_.order) {
      const GraphNode& n = g_.node(id);
      if (n.inputs.empty() || !n.inputs[0].valid() || !lies_plain(n.inputs[0])) continue;
      const SymShape& from = g_.value(n.inputs[0]).shape;
      const ViewUnit unit = units_[n.inputs[0].index];
      for (size_t out = 0; out < n.outputs.size(); ++out) {
        const ValueId v = n.outputs[out];
        if (!v.valid()) continue;
        const auto given = ask(id, [&](const PrepareCtx& ctx) {
          return p_.nodes[id.index].kernel->gives_view(ctx, static_cast<int>(out), unit,
                                                       from.has_rank ? from.rank() : -1);
        });
        if (given) decide(v, *given);
      }
    }
  }

 private:
  void decide(ValueId v, ViewUnit unit) {
    std::string why = refusal(v, unit);
    if (!why.empty()) {
      p_.dense.emplace(static_cast<int32_t>(v.index), std::move(why));
      return;
    }
    p_.values[v.index].may_stride = true;
    units_[v.index] = unit;
  }

  // Why the value must be row-major; empty: it need not.
  std::string refusal(ValueId v, ViewUnit unit) const {
    const GraphValue& value = g_.value(v);
    if (value.is_output) return "it is an output of the graph";
    if (!value.type.is_tensor() || value.type.is_object() || bit_width(value.type.dtype()) % 8 != 0)
      return absl::StrCat("it is ", to_string(value.type));
    if (!lies_plain(v)) return "it lies on a device or in blocks";
    for (const Use& use : value.uses) {
      const GraphNode& reader = g_.node(use.node);
      bool takes = ask(use.node, [&](const PrepareCtx& ctx) {
        return p_.nodes[use.node.index].kernel->takes_view(ctx, use.slot, unit, static_cast<int>(value.uses.size()));
      });
      for (const ValueId out : reader.outputs) takes = takes && (!out.valid() || lies_plain(out));
      if (!takes)
        return absl::StrCat("its reader ", to_string(reader.op),  // by no name: layers that do the same say the same
                            unit == kRowUnit ? " takes no strided view" : " would read single elements far apart");
    }
    return "";
  }

  bool lies_plain(ValueId v) const { return g_.value(v).layout.is_plain() && g_.value(v).device.is_host(); }

  template <typename F>
  std::invoke_result_t<F, const PrepareCtx&> ask(NodeId id, F&& f) const {
    const GraphNode& n = g_.node(id);
    std::vector<const Tensor*> constants;
    std::vector<Layout> in, out;
    for (const ValueId v : n.inputs) {
      constants.push_back(g_.is_constant(v) ? &*g_.value(v).constant : nullptr);
      in.push_back(v.valid() ? g_.value(v).layout : Layout());
    }
    for (const ValueId v : n.outputs) out.push_back(v.valid() ? g_.value(v).layout : Layout());
    return f(PrepareCtx{active_isa(), constants, in, out});
  }

  const Graph& g_;
  PreparedGraph& p_;
  std::vector<ViewUnit> units_;  // by value
};

}  // namespace

void decide_views(const Graph& g, PreparedGraph* p) { ViewDecider(g, p).run(); }

}  // namespace forethought
