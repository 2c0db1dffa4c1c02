// Old operator forms rewritten to the newest, and back where the older form can say the same.
#pragma once

#include <span>
#include <string_view>

#include "onnx/upgrade/rewriter.h"

namespace forethought {

// One change of an operator of the default domain that is more than a wider type or a new attribute with a neutral
// default (those need no rule).
struct UpgradeRule {
  std::string_view op;
  int version;  // since_version of the form that `up` produces
  // From any older form, after the rules of lower versions; node.version is still that of the file's form.
  // Null: what the older form says means the same in this one.
  Status (*up)(Rewriter& r, NodeForm& node);
  // To the form just before, from this one; false: that form cannot say it. Null: it never can.
  bool (*down)(const Graph& graph, NodeForm& node);
};

// Each family's rules; rules of one operator stand in one family, by rising version.
std::span<const UpgradeRule> broadcast_rules();  // Add …, Gemm, PRelu: axis broadcasting before 7
std::span<const UpgradeRule> reduce_rules();     // axes become an input
std::span<const UpgradeRule> shape_rules();      // Concat, Reshape, Squeeze, Unsqueeze, Slice, Split, Pad, Tile, TopK
std::span<const UpgradeRule> pointwise_rules();  // Cast, Clip, Dropout
std::span<const UpgradeRule> softmax_rules();    // two-dimensional coercion before 13
std::span<const UpgradeRule> normalize_rules();  // BatchNormalization
std::span<const UpgradeRule> resize_rules();     // Upsample, Resize-10
std::span<const UpgradeRule> scan_rules();       // Scan-8

// Brings a node of the default domain into its newest form; other domains and unknown operators stay. A rule may also
// build everything out of helper nodes: then node.type is empty at the end.
Status upgrade(Rewriter& r, NodeForm& node);

// The opset of the node's domain closest above `opset` (or it) whose form can say the node, which is rewritten to that
// form, with another name of the operator if need be; 0 if there is none. `node` must be in its newest form.
int downgrade(const Graph& graph, NodeForm& node, int opset);

// Turns a Resize in its newest form into the Upsample that opsets 7 to 9 had; false if that cannot say it.
bool resize_to_upsample(const Graph& graph, NodeForm& node, int opset);

// Takes a node's _coerce_2d apart into Flatten, the operator over the last axis, and Reshape, which every opset can
// say.
void spell_out_coercion(Rewriter& r, NodeForm& node);

// Shared by the rules of attributes that became inputs and back.
// Moves the ints attribute to input `slot`, if it is there.
void ints_to_input(Rewriter& r, NodeForm& node, std::string_view attribute, size_t slot);
// Moves a constant int64 input to an attribute; false if it is there and no constant.
bool input_to_ints(const Graph& graph, NodeForm& node, size_t slot, std::string_view attribute);

}  // namespace forethought
