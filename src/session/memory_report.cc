// Gathering holders, and the words of the report.
#include "session/memory_report.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "graph/graph.h"
#include "graph/text.h"
#include "memory/block_pool.h"
#include "memory/system.h"
#include "plan/report.h"

namespace forethought {
namespace {

using Json = nlohmann::ordered_json;

void append_holders(const std::vector<MemoryHolder>& holders, size_t most, std::string* text) {
  for (size_t i = 0; i < std::min(most, holders.size()); ++i) {
    const MemoryHolder& h = holders[i];
    absl::StrAppend(text, i ? ", " : "", "'", h.value, "'", h.node.empty() ? "" : absl::StrCat(" of node ", h.node),
                    " (", name(h.role), ", ", h.buffers > 0 ? absl::StrCat(h.buffers, " held, ") : "",
                    readable_bytes(h.bytes), ")");
  }
}

// The values of a slab (kNoId: the host's) at the step where they take the most bytes; each buffer under the name of
// its owner.
std::vector<int32_t> fullest(const CompiledProgram& p, int32_t slab) {
  struct Life {
    int32_t first = -1, last = -1;
  };
  const auto& places = p.plan.values;
  std::vector<Life> lives(places.size());
  for (size_t v = 0; v < places.size(); ++v) {
    const ValuePlace& at = places[v];
    if (at.arena != ArenaKind::slab || at.index != slab || at.first_step < 0) continue;
    Life& life = lives[at.root >= 0 ? static_cast<size_t>(at.root) : v];
    life.first = life.first < 0 ? at.first_step : std::min(life.first, at.first_step);
    life.last = std::max(life.last, at.last_step);
  }
  std::vector<int64_t> change(p.steps.size() + 1, 0);
  for (size_t v = 0; v < places.size(); ++v) {
    if (lives[v].first < 0 || places[v].bytes <= 0) continue;
    change[lives[v].first] += places[v].bytes;
    change[lives[v].last + 1] -= places[v].bytes;
  }
  int64_t now = 0, most = -1;
  int32_t at = 0;
  for (size_t s = 0; s < p.steps.size(); ++s) {
    now += change[s];
    if (now > most) most = now, at = static_cast<int32_t>(s);
  }
  std::vector<int32_t> live;
  for (size_t v = 0; v < places.size(); ++v) {
    if (lives[v].first >= 0 && lives[v].first <= at && at <= lives[v].last && places[v].bytes > 0)
      live.push_back(static_cast<int32_t>(v));
  }
  return live;
}

// By value, the name of the step that makes it; empty: none does.
std::vector<std::string> makers(const CompiledProgram& p) {
  std::vector<std::string> maker(p.plan_values->size());
  for (size_t s = 0; s < p.steps.size(); ++s) {
    for (const int32_t v : p.steps[s].outputs)
      if (v >= 0) maker[v] = p.steps[s].name;
    if (p.scratch[s] != kNoId) maker[p.scratch[s]] = p.steps[s].name;
  }
  return maker;
}

// The name of the step that reads the most bytes of streamed weights by itself.
std::string widest(const CompiledProgram& p) {
  int64_t most = 0;
  std::string name;
  for (const ProgramStep& step : p.steps) {
    int64_t bytes = 0;
    for (const auto& range : step.extras->reads) bytes += static_cast<int64_t>(range.size());
    if (bytes > most) most = bytes, name = step.name;
  }
  return name;
}

// "at most 1.0 KiB (1024 bytes)", and what has no bound.
std::string unplanned_text(const MemoryReport& report) {
  std::string text;
  if (report.unplanned_most > 0 || report.unbounded.empty())
    absl::StrAppend(&text, "at most ", readable_bytes(report.unplanned_most),
                    report.unplanned_most < 1024 ? "" : absl::StrCat(" (", report.unplanned_most, " bytes)"));
  constexpr size_t kNamed = 5;
  for (size_t i = 0; i < std::min(kNamed, report.unbounded.size()); ++i)
    absl::StrAppend(&text, i > 0 ? ", " : text.empty() ? "nothing bounds " : "; nothing bounds ", report.unbounded[i]);
  if (report.unbounded.size() > kNamed) absl::StrAppend(&text, " and ", report.unbounded.size() - kNamed, " more");
  return text;
}

// By the name of a constant, the first node that reads it; bodies come after the graph.
void add_readers(const PreparedGraph& graph, std::map<std::string_view, std::string>* readers) {
  const Graph& g = *graph.view;
  for (NodeId id : graph.order)
    for (ValueId input : g.node(id).inputs)
      if (g.is_constant(input)) readers->try_emplace(g.value(input).name, described(g.node(id)));
  for (const auto& [key, body] : graph.bodies) add_readers(*body, readers);
}

template <typename F>
void for_outputs_taken(const CompiledProgram& p, std::span<const uint8_t> bound, F&& f) {
  for (size_t o = 0; o < p.outputs.size(); ++o) {
    const ProgramValue& v = p.values[p.outputs[o]];
    if (!v.known || v.dtype == DType::kString || v.is_object() || (o < bound.size() && bound[o])) continue;
    f(p.outputs[o], BlockPool::class_bytes(v.bytes));
  }
}

// f(value, the bytes that it takes at most), for those of unknown size that have a bound.
template <typename F>
void for_bounded(const CompiledProgram& p, const Unplanned& late, F&& f) {
  for (ValueNo v : late.values) {
    const ValuePlace& at = p.plan.values[v];
    const int64_t most = at.bytes == kUnknownSize ? (*p.plan_values)[v].most_bytes : at.bytes;
    if (most != kUnknownSize && std::ranges::find(late.unbounded, v) == late.unbounded.end()) f(v, most);
  }
}

}  // namespace

std::string weights_text(const WeightTotals& totals, bool streamed, const std::string& reason, int64_t window) {
  std::string text = absl::StrCat(streamed ? "streamed" : "resident", ", as ", reason);
  if (streamed) {
    absl::StrAppend(&text, "; ", readable_bytes(totals.streamed), " in pages of files");
    if (window > 0) absl::StrAppend(&text, ", of which a step reads ", readable_bytes(window), " at most");
  }
  if (totals.packs_left_out > 0)
    absl::StrAppend(&text, "; ", totals.packs_left_out, " packed forms (", readable_bytes(totals.packs_left_out_bytes),
                    ") are left out");
  const auto list = [&](std::string_view what, std::vector<KeptWeight> kept) {
    if (kept.empty()) return;
    std::ranges::stable_sort(kept, std::greater(), &KeptWeight::bytes);
    int64_t bytes = 0;
    for (const KeptWeight& k : kept) bytes += k.bytes;
    absl::StrAppend(&text, "; ", kept.size(), " ", std::string(what), " (", readable_bytes(bytes), "):");
    constexpr size_t kNamed = 5;
    for (size_t i = 0; i < std::min(kNamed, kept.size()); ++i)
      absl::StrAppend(&text, i ? ", '" : " '", kept[i].name, "' (", readable_bytes(kept[i].bytes), ": ", kept[i].why,
                      ")");
    if (kept.size() > kNamed) absl::StrAppend(&text, " and ", kept.size() - kNamed, " more");
  };
  list("constants stay in memory", totals.kept);
  list("packed forms are made all the same", totals.needed);
  return text;
}

int64_t bytes_of_run(const CompiledProgram& program, std::span<const uint8_t> bound) {
  int64_t bytes = Pages::rounded(program.slab_bytes) + program.window;
  for_outputs_taken(program, bound, [&](int32_t, int64_t taken) { bytes += taken; });
  return bytes;
}

int64_t bytes_of_run_on(const CompiledProgram& program, size_t place) {
  return place < program.device_slab_bytes.size() ? program.device_slab_bytes[place] : 0;
}

void add_weights(const PreparedGraph& graph, const MemoryBudget& account, std::vector<MemoryHolder>* holders) {
  std::map<std::string_view, std::string> readers;
  add_readers(graph, &readers);
  for (const NamedUse& use : account.named_uses()) {
    const auto reader = readers.find(use.who);
    holders->push_back({use.who, reader == readers.end() ? "" : reader->second, use.role, use.bytes});
  }
}

void add_weights_on(const PreparedGraph& graph, Device device, std::vector<MemoryHolder>* holders) {
  std::set<const void*> seen;
  const Graph& g = *graph.view;
  for (NodeId id : graph.order) {
    const GraphNode& n = g.node(id);
    for (ValueId input : n.inputs) {
      if (!g.is_constant(input)) continue;
      const GraphValue& v = g.value(input);
      if (v.device == device && v.constant->data && v.constant->bytes() > 0 && seen.insert(v.constant->data).second)
        holders->push_back({v.name, described(n), MemoryRole::weights, v.constant->bytes()});
    }
  }
  for (const auto& [key, body] : graph.bodies) add_weights_on(*body, device, holders);
}

void add_run(const CompiledProgram& program, std::span<const uint8_t> bound, std::vector<MemoryHolder>* holders) {
  const std::vector<std::string> maker = makers(program);
  for (int32_t v : fullest(program, kNoId))
    holders->push_back(
        {std::string((*program.plan_values)[v].name), maker[v], MemoryRole::planned, program.plan.values[v].bytes});
  if (program.window > 0)
    holders->push_back({"the weights that one step reads", widest(program), MemoryRole::weights, program.window});
  for_outputs_taken(program, bound, [&](int32_t v, int64_t) {
    holders->push_back({std::string(program.values[v].name), maker[v], MemoryRole::leased, program.values[v].bytes});
  });
}

void add_unplanned(const CompiledProgram& program, MemoryReport* report) {
  const Unplanned late = unplanned(program.problem(), program.plan);
  report->unplanned_values += static_cast<int64_t>(late.values.size());
  for_bounded(program, late, [&](ValueNo, int64_t most) {
    report->unplanned_most =
        checked_add(report->unplanned_most, BlockPool::class_bytes(most)).value_or(std::numeric_limits<int64_t>::max());
  });
  if (!late.unbounded.empty()) {
    const std::vector<std::string> maker = makers(program);
    for (ValueNo v : late.unbounded) {
      const std::string node = maker[v].empty() ? std::string() : absl::StrCat(" of node ", maker[v]);
      report->unbounded.push_back(absl::StrCat("'", std::string((*program.plan_values)[v].name), "'", node));
    }
  }
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (size_t b = 0; b < program.steps[s].extras->bodies.size(); ++b) {
      const auto body = program.bodies.find({static_cast<uint32_t>(program.steps[s].node), static_cast<int>(b)});
      if (body != program.bodies.end()) {
        add_unplanned(*body->second, report);
      } else {
        std::string what = absl::StrCat("a body of node ", std::string(program.steps[s].name));
        if (report->unbounded.empty() || report->unbounded.back() != what) report->unbounded.push_back(std::move(what));
      }
    }
  }
}

void add_bounded(const CompiledProgram& program, std::vector<MemoryHolder>* holders) {
  const std::vector<std::string> maker = makers(program);
  for_bounded(program, unplanned(program.problem(), program.plan), [&](ValueNo v, int64_t most) {
    holders->push_back({std::string((*program.plan_values)[v].name), maker[v], MemoryRole::unplanned, most});
  });
  for (const auto& [key, body] : program.bodies) add_bounded(*body, holders);
}

void add_run_on(const CompiledProgram& program, size_t place, std::vector<MemoryHolder>* holders) {
  const std::vector<std::string> maker = makers(program);
  for (int32_t v : fullest(program, static_cast<int32_t>(place)))
    holders->push_back(
        {std::string((*program.plan_values)[v].name), maker[v], MemoryRole::planned, program.plan.values[v].bytes});
}

void sort_holders(std::vector<MemoryHolder>* holders) {
  std::ranges::stable_sort(*holders, std::greater(), &MemoryHolder::bytes);
}

Status too_little(const MemoryBudget::Refusal& r, const std::vector<MemoryHolder>& holders, int64_t least,
                  int64_t elsewhere) {
  return exhausted(absl::StrCat(r.who, " needs ", readable_bytes(r.bytes), " more than the ",
                                r.of_process ? "process's " : "", r.device.empty() ? "" : "device ", "memory limit of ",
                                readable_bytes(r.limit), r.device.empty() ? "" : absl::StrCat(" on ", r.device),
                                " leaves; ", explain_need(holders, least, elsewhere)));
}

Status too_little(const MemoryBudget::Refusal& refusal, const MemoryReport& report, int64_t least, int64_t elsewhere) {
  const Status told = too_little(refusal, report.holders, least, elsewhere);
  if (report.unbounded.empty()) return told;
  return exhausted(absl::StrCat(told.message(), "; nothing bounds ", report.unbounded.front(),
                                report.unbounded.size() > 1 ? " and others" : "", ": it may take more"));
}

int64_t enough(const MemoryReport& report) {
  return checked_add(report.least, report.unplanned_most).value_or(std::numeric_limits<int64_t>::max());
}

std::string explain_need(const std::vector<MemoryHolder>& holders, int64_t least, int64_t elsewhere) {
  std::string text =
      absl::StrCat("allow at least ", readable_bytes(least), " (", least, " bytes), or release outputs that are held");
  if (elsewhere > 0) absl::StrAppend(&text, "; the process holds ", readable_bytes(elsewhere), " beside this session");
  if (!holders.empty()) text += "; the largest holders: ";
  append_holders(holders, 5, &text);
  return text;
}

std::string to_string(const MemoryReport& report, size_t most) {
  std::string text;
  const auto line = [&](std::string_view what, int64_t bytes) {
    absl::StrAppend(&text, "  ", std::string(what), std::string(what.size() < 16 ? 16 - what.size() : 1, ' '),
                    readable_bytes(bytes), bytes < 1024 ? "" : absl::StrCat(" (", bytes, " bytes)"), "\n");
  };
  for (const auto& [title, statistics] :
       {std::pair{"session", &report.session}, std::pair{"process", &report.process}}) {
    absl::StrAppend(&text, title, "\n");
    for (const auto& [what, bytes] : named(*statistics)) line(what, bytes);
  }
  if (!report.weights.empty()) absl::StrAppend(&text, "weights: ", report.weights, "\n");
  for (const DeviceReport& d : report.devices) {
    if (d.least > 0) absl::StrAppend(&text, "least limit on ", d.memory.device, ": ", d.least, " bytes\n");
    absl::StrAppend(&text, "largest holders on ", d.memory.device, "\n");
    for (size_t i = 0; i < std::min(most, d.holders.size()); ++i) {
      text += "  ";
      append_holders({d.holders[i]}, 1, &text);
      text += "\n";
    }
  }
  if (!report.caps.empty()) absl::StrAppend(&text, "kept between runs at most\n", to_string(report.caps));
  absl::StrAppend(&text, "process, outside the limit\n");
  for (const auto& [what, bytes] : report.outside) line(what, bytes);
  if (!report.outside.empty())
    text += "  (heap: objects of libraries, of this runtime and of the program, which the heap does not tell apart)\n";
  if (report.of_shapes) {
    absl::StrAppend(&text, "least limit: ", report.least, " bytes");
    if (report.unplanned_values > 0 || !report.unbounded.empty())
      absl::StrAppend(&text, ", and what ", report.unplanned_values,
                      " values take whose sizes only a run tells: ", unplanned_text(report));
    text += "\n";
  } else {
    absl::StrAppend(&text, "least limit: ", report.least, " bytes without any run, whose shapes are not known yet\n");
  }
  absl::StrAppend(&text, "largest holders\n");
  for (size_t i = 0; i < std::min(most, report.holders.size()); ++i) {
    text += "  ";
    append_holders({report.holders[i]}, 1, &text);
    text += "\n";
  }
  return text;
}

std::string memory_json(const MemoryReport& r, int indent) {
  const auto counts = [](const std::vector<std::pair<std::string, int64_t>>& named) {
    Json object = Json::object();
    for (const auto& [name, bytes] : named) object[name] = bytes;
    return object;
  };
  const auto holders = [](const std::vector<MemoryHolder>& all) {
    Json list = Json::array();
    for (const MemoryHolder& h : all)
      list.push_back(
          {{"value", h.value}, {"node", h.node}, {"role", name(h.role)}, {"bytes", h.bytes}, {"buffers", h.buffers}});
    return list;
  };
  Json j{{"session", counts(named(r.session))},
         {"process", counts(named(r.process))},
         {"least_limit", least_limit(r)},
         {"unplanned_values", r.unplanned_values},
         {"unplanned_most", r.unplanned_most},
         {"unbounded", r.unbounded},
         {"weights", r.weights},
         {"caps", Json::object()},
         {"holders", holders(r.holders)},
         {"outside", counts(r.outside)},
         {"devices", Json::object()}};
  for (const MemoryCap& c : r.caps)
    j["caps"][c.name] = {{"unit", c.unit}, {"most", c.most}, {"kept", c.kept}, {"follows", c.follows}};
  for (const DeviceReport& d : r.devices)
    j["devices"][d.memory.device] = {{"least_limit", d.least}, {"holders", holders(d.holders)}};
  return j.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::pair<std::string, int64_t>> outside_memory() {
  std::vector<std::pair<std::string, int64_t>> lines;
  int64_t code = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char rights[5] = {}, path[16] = {};
    const int fields = std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %15s", &begin, &end, rights, path);
    if (fields == 3 && rights[2] == 'x') code += static_cast<int64_t>(end - begin);
  }
  lines.emplace_back("generated code", code);
#ifdef __GLIBC__
  const struct mallinfo2 heap = ::mallinfo2();
  const auto used = static_cast<int64_t>(heap.uordblks + heap.hblkhd);  // sanitizers, whose heap it is, tell none
  lines.emplace_back("heap", std::max<int64_t>(used - obtained_heap_bytes(), 0));
#endif
  return lines;
}

}  // namespace forethought
