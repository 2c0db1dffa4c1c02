// A graph that is ready to be planned: bound, placed, its constants aligned or packed. Immutable; shared by all plans.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "graph/facts.h"
#include "graph/graph.h"
#include "kernel_api/kernel.h"
#include "memory/budget.h"
#include "session/constants.h"
#include "session/pack_folder.h"
#include "session/packs.h"

namespace forethought {

// Units apart, a bit each: rows, columns, all others.
constexpr uint8_t lent_bit(ViewUnit unit) { return unit == kRowUnit ? 1 : unit == kColumnUnit ? 2 : 4; }

struct PreparedNode {
  const Kernel* kernel = nullptr;
  uint32_t contents = 0;       // the kernel's contents()
  uint32_t packs = 0;          // is_packed() of the first 32 inputs: plans ask for it, and what follows lies elsewhere
  std::vector<Packed> packed;  // one an input; empty bytes: not packed
  std::vector<std::span<const std::byte>> packed_bytes;  // the same, as steps take them
  std::vector<std::shared_ptr<const PackedBlock>> keep;
  std::vector<std::span<const std::byte>> streamed;  // packed forms in pages that come and go with the steps

  bool is_packed(size_t input) const {
    return input < 32 ? has_bit(packs, input) : input < packed.size() && !packed[input].bytes.empty();
  }
};

// What plans ask of a value of the graph, close together: a graph's own values are large and lie far apart.
struct PreparedValue {
  Layout layout;
  Device device;
  bool removed = false;
  bool may_stride = false;           // as Operand: see strided_views.h
  uint8_t lent = 0;                  // of an input of the graph: lent_bit() of each unit that all its readers take
  int32_t weight = -1;               // which of PreparedGraph::weights holds it; -1: none
  const Tensor* constant = nullptr;  // the graph's; null: it is none. Without data where packed forms alone are read
};

// A constant that stays in memory where others are streamed.
struct KeptWeight {
  std::string name, why;
  int64_t bytes = 0;
};

struct WeightTotals {
  int64_t constants = 0;   // bytes of constants that steps read in place
  int64_t packed = 0;      // bytes of packed forms
  int64_t on_devices = 0;  // bytes of constants that devices hold
  int64_t copied = 0;      // bytes copied because they lay unaligned, or where they do not stay
  int64_t streamed = 0;    // of constants and packed forms: bytes in pages that come and go with the steps
  int64_t packs_left_out = 0, packs_left_out_bytes = 0;  // packed forms that were not made
  std::vector<KeptWeight> kept;                          // where weights are streamed
  std::vector<KeptWeight> needed;                        // packed forms that were made all the same
};

struct PreparedGraph {
  std::unique_ptr<Graph> graph;  // null in bodies: the outer graph owns them
  const Graph* view = nullptr;   // the graph
  std::vector<NodeId> order;
  std::vector<PreparedNode> nodes;    // by NodeId
  std::vector<Tensor> weights;        // constants that steps read, aligned
  std::vector<uint8_t> streams;       // by weight: whether its pages come and go with the steps that read it
  bool streamed = false;              // some are to
  std::vector<PreparedValue> values;  // by ValueId
  std::map<std::pair<uint32_t, int>, std::unique_ptr<PreparedGraph>> bodies;
  std::map<int32_t, std::string> dense;  // by value that could be a strided view and may not be one: why

  std::string_view dense_because(int32_t value) const {
    const auto at = dense.find(value);
    return at == dense.end() ? std::string_view() : at->second;
  }
  // Of the outermost graph: each block counts once a session.
  std::map<const PackedBlock*, MemoryShare> pack_shares;
  std::map<std::shared_ptr<const SharedConstant>, MemoryShare> constant_shares;
  std::vector<MemoryShare> dry_shares;
};

struct PrepareOptions {
  std::shared_ptr<MemoryBudget> budget;  // of the session
  bool dry = false;  // nothing is packed or copied, only counted: `budget` is a probe, and no step may run
  const DeviceSet* devices = nullptr;  // constants that live on one of them are copied there
  std::string_view model_bytes;        // the model, where it was given as bytes: constants in there are counted already
  bool strided_views = true;           // false: every value is row-major
  bool model_goes = false;             // those bytes are there for the load alone: no constant may stay in them
  bool prepack = true;                 // false: no packed form is made that a kernel can do without
  bool streamed = false;               // pages of mapped files come and go with the steps that read them
  std::shared_ptr<PackFolder> pack_folder;  // where packed forms are kept; null: in memory alone
  bool keep_packs = true;  // false: where streamed, no packed form is made in memory of what a step can read as it is
};

// Asks every kernel what it packs, packs it, and lets go of constants of which nobody reads more, unless they lie in a
// mapped file. Those that steps read lie in mapped files, in the bytes of the model, or in the process's store.
StatusOr<std::unique_ptr<PreparedGraph>> prepare_graph(std::unique_ptr<Graph> graph, const PrepareOptions& options,
                                                       WeightTotals* totals);

}  // namespace forethought
