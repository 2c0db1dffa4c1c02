#include "session/streaming.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "memory/mapped_file.h"

namespace forethought {
namespace {

using Pages = StepExtras::PageRanges;

const std::byte* end_of(std::span<const std::byte> range) { return range.data() + range.size(); }

// In order of address, those that meet as one.
void merge(Pages* pages) {
  std::ranges::sort(*pages, std::less(), [](const auto& r) { return r.data(); });
  size_t kept = 0;
  for (const auto& range : *pages) {
    if (range.empty()) continue;
    if (kept > 0 && range.data() <= end_of((*pages)[kept - 1])) {
      auto& last = (*pages)[kept - 1];
      last = {last.data(), std::max(end_of(last), end_of(range))};
    } else {
      (*pages)[kept++] = range;
    }
  }
  pages->resize(kept);
}

// What of `from` is not in `others`; both merged.
Pages without(const Pages& from, const Pages& others) {
  Pages left;
  size_t o = 0;
  for (const auto& range : from) {
    const std::byte* at = range.data();
    while (o < others.size() && end_of(others[o]) <= at) ++o;
    for (size_t k = o; k < others.size() && others[k].data() < end_of(range); ++k) {
      if (others[k].data() > at) left.emplace_back(at, others[k].data());
      at = std::max(at, end_of(others[k]));
    }
    if (at < end_of(range)) left.emplace_back(at, end_of(range));
  }
  return left;
}

int64_t bytes_of(const Pages& pages) {
  int64_t bytes = 0;
  for (const auto& range : pages) bytes += static_cast<int64_t>(range.size());
  return bytes;
}

Pages pages_of_packs(const PreparedNode& node) {
  Pages pages;
  for (const auto& pack : node.streamed) pages.push_back(pages_of(pack));
  return pages;
}

std::span<const std::byte> pages_of_weight(const PreparedGraph& graph, int32_t weight) {
  if (weight < 0 || !graph.streams[weight]) return {};
  const Tensor& t = graph.weights[weight];
  return pages_of({static_cast<const std::byte*>(t.data), static_cast<size_t>(t.bytes())});
}

// Whether the node reads its input. Of what bodies capture nobody may read any more: constants become their own.
bool is_read(const GraphNode& n, size_t input) {
  const int capture = static_cast<int>(input) - n.formal_inputs();
  if (capture < 0) return true;
  return std::ranges::any_of(n.bodies, [&](const auto& named) {
    const Graph& body = *named.second;
    const ValueId v = body.inputs()[body.inputs().size() - static_cast<size_t>(n.captures - capture)];
    return !body.value(v).uses.empty() || std::ranges::find(body.outputs(), v) != body.outputs().end();
  });
}

// Windows of a graph as far as it can be told without a program.
struct Windows {
  int64_t one = 0, ahead = 0;
};
Windows windows_of(const PreparedGraph& graph);

// The most that bodies of a node read at once: one of them runs.
Windows windows_of_bodies(const PreparedGraph& graph, uint32_t node) {
  Windows most;
  for (auto b = graph.bodies.lower_bound({node, 0}); b != graph.bodies.end() && b->first.first == node; ++b) {
    const Windows w = windows_of(*b->second);
    most = {std::max(most.one, w.one), std::max(most.ahead, w.ahead)};
  }
  return most;
}

// What steps read one after the other.
class Windower {
 public:
  void add(const Pages& reads, const Windows& inside) {
    const int64_t own = bytes_of(reads);
    windows_.one = std::max(windows_.one, own + inside.one);
    windows_.ahead = std::max({windows_.ahead, own + inside.ahead, before_ + bytes_of(without(reads, last_))});
    if (reads.empty()) return;
    before_ = own + inside.ahead;
    last_ = reads;
  }
  const Windows& windows() const { return windows_; }

 private:
  Windows windows_;
  int64_t before_ = 0;  // what the last step that read some has, without what it asks for
  Pages last_;
};

Windows windows_of(const PreparedGraph& graph) {
  Windower windower;
  for (const NodeId id : graph.order) {
    Pages reads = pages_of_packs(graph.nodes[id.index]);
    const GraphNode& n = graph.view->node(id);
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i].valid() && is_read(n, i))
        reads.push_back(pages_of_weight(graph, graph.values[n.inputs[i].index].weight));
    merge(&reads);
    windower.add(reads, windows_of_bodies(graph, id.index));
  }
  return windower.windows();
}

}  // namespace

void plan_streaming(const PreparedGraph& graph, CompiledProgram& program) {
  if (!graph.streamed) return;
  Windower windower;
  StepExtras* last = nullptr;  // of the step before that reads some
  for (ProgramStep& step : program.steps) {
    Pages reads = pages_of_packs(graph.nodes[static_cast<size_t>(step.node)]);
    const GraphNode& n = graph.view->node(NodeId{static_cast<uint32_t>(step.node)});
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int32_t v = step.inputs[i];
      if (v >= 0 && program.values[v].base == Base::weight && is_read(n, i))
        reads.push_back(pages_of_weight(graph, program.values[v].index));
    }
    merge(&reads);
    windower.add(reads, windows_of_bodies(graph, static_cast<uint32_t>(step.node)));
    if (reads.empty()) continue;
    if (last) {
      last->ahead = without(reads, last->reads);
      last->drops = without(last->drops, reads);
    }
    last = &step.extras.write();
    for (const auto& range : reads) last->drops.push_back(pages_around(range));
    merge(&last->drops);
    last->reads = std::move(reads);
  }
  program.window = windower.windows().one;
  program.window_ahead = windower.windows().ahead;
}

}  // namespace forethought
