// What a rule answers: nothing, a reason why not, or a rewrite as data that the engine checks and carries out.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"

namespace forethought::passes {

// The newest form of a standard operator, or an internal one ("forethought.FusedConv").
OpId op_id(std::string_view name);

// A value that a rewrite names: one of the graph, a new constant, or an output of a new node. Default: a skipped input.
struct Ref {
  enum class Kind : uint8_t { none, existing, constant, made };
  Kind kind = Kind::none;
  uint32_t index = 0;  // of the value, of Rewrite::constants() or of Rewrite::nodes()
  int slot = 0;        // output of the node

  Ref() = default;
  Ref(ValueId v) : kind(v.valid() ? Kind::existing : Kind::none), index(v.index) {}  // NOLINT
  Ref(Kind k, uint32_t i, int s = 0) : kind(k), index(i), slot(s) {}
  Ref output(int s) const { return {kind, index, s}; }  // another output of the same new node
};

// Replaces outputs of the root node. Built by a rule, carried out by the engine alone.
class Rewrite {
 public:
  struct NewNode {
    OpId op;
    std::vector<Ref> inputs;
    Attributes attributes;
    int outputs = 1;
    std::vector<bool> skipped;  // by output: it is left out; none where there are no more entries
    int captures = 0;
    std::vector<std::pair<std::string, std::unique_ptr<Graph>>> bodies;
    std::string name;                 // empty: the root's
    std::vector<std::string> origin;  // empty: the root's and the taken nodes'
    std::vector<std::string> output_names;
  };

  // The new constant's name is made from `like` (a value of the graph) if given.
  Ref constant(Tensor contents, ValueId like = {}) {
    constants_.push_back({std::move(contents), like});
    return {Ref::Kind::constant, static_cast<uint32_t>(constants_.size() - 1)};
  }
  Ref node(NewNode n) {
    nodes_.push_back(std::move(n));
    return {Ref::Kind::made, static_cast<uint32_t>(nodes_.size() - 1)};
  }
  Ref node(OpId op, std::vector<Ref> inputs, Attributes attributes = {}) {
    NewNode n;
    n.op = std::move(op), n.inputs = std::move(inputs), n.attributes = std::move(attributes);
    return node(std::move(n));
  }
  // What output `i` of the root is from now on. Outputs that nobody reads need no result.
  Rewrite& result(int i, Ref r) {
    results_.push_back({i, r});
    return *this;
  }
  // A node other than the root whose work is done by the new nodes: nobody else may read what it makes.
  Rewrite& takes(NodeId n) {
    taken_.push_back(n);
    return *this;
  }
  // The root stays for the outputs that have no result.
  Rewrite& partial() {
    partial_ = true;
    return *this;
  }
  Rewrite& spends(int64_t bytes) {  // of the fold budget
    spends_ = bytes;
    return *this;
  }
  Rewrite& says(std::string what) {  // for the journal, if it tells more than the rule's name
    what_ = std::move(what);
    return *this;
  }

  struct NewConstant {
    Tensor contents;
    ValueId like;
  };
  std::vector<NewConstant>& constants() { return constants_; }
  std::vector<NewNode>& nodes() { return nodes_; }
  const std::vector<std::pair<int, Ref>>& results() const { return results_; }
  const std::vector<NodeId>& taken() const { return taken_; }
  bool is_partial() const { return partial_; }
  int64_t spent() const { return spends_; }
  const std::string& what() const { return what_; }

 private:
  std::vector<NewConstant> constants_;
  std::vector<NewNode> nodes_;
  std::vector<std::pair<int, Ref>> results_;
  std::vector<NodeId> taken_;
  std::string what_;
  int64_t spends_ = 0;
  bool partial_ = false;
};

struct Declined {
  std::string reason;
};
// monostate: the rule has nothing to say here.
using Outcome = std::variant<std::monostate, Declined, Rewrite>;

template <typename... Parts>
Outcome decline(const Parts&... parts) {
  return Declined{absl::StrCat(parts...)};
}
inline Outcome no_match() { return std::monostate{}; }

// The root's only output is what `op` makes of the inputs.
Rewrite replace_root_with(std::string_view op, std::vector<Ref> inputs, Attributes attributes = {});
// The root's first output is an existing value.
Rewrite replace_root_by(ValueId value);

}  // namespace forethought::passes
