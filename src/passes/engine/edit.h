// One rewrite on its way into the graph: made beside what it replaces, checked, then switched in or taken back.
#pragma once

#include <vector>

#include "graph/operator.h"
#include "passes/engine/rewrite.h"

namespace forethought::passes {

class Edit {
 public:
  Edit(Graph& graph, const OperatorLibrary& library, NodeId root, Rewrite& rewrite)
      : graph_(graph), library_(library), root_(root), rewrite_(rewrite) {}

  // Makes the new nodes and checks that they can take the place. Not ok: the reason, and the graph is as it was.
  Status prepare();
  // Only after prepare() was ok.
  void commit();

  const std::vector<NodeId>& made() const { return nodes_; }
  const std::vector<ValueId>& changed() const { return changed_; }  // what has another producer or fewer readers
  const std::vector<ValueId>& sharper() const { return sharper_; }  // of which more is known than before
  // Edges of a node agree on both sides.
  Status check(NodeId id) const;

 private:
  Status check_taken() const;
  Status check_results() const;
  Status make_nodes();
  void take_back();
  StatusOr<ValueId> resolve(const Ref& ref);
  void inherit(GraphNode& n, const Rewrite::NewNode& wanted) const;
  void switch_to_made(ValueId old, const Ref& ref);
  void remove_unread(NodeId id);

  Graph& graph_;
  const OperatorLibrary& library_;
  NodeId root_;
  Rewrite& rewrite_;
  std::vector<NodeId> nodes_;
  std::vector<std::vector<ValueId>> outputs_;  // of each new node
  std::vector<ValueId> constants_;             // made when first used
  std::vector<ValueId> changed_, sharper_;
};

// Runs a node's shape rule again and keeps what it tells more; returns the outputs of which more is known. A rule that
// fails now leaves everything as it is: the node fails at run if it is ever reached.
std::vector<ValueId> infer_again(Graph& graph, NodeId id);

}  // namespace forethought::passes
