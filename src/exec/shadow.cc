#include "exec/shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "exec/program.h"
#include "memory/slab.h"

namespace forethought {
namespace {

struct Span {
  const std::byte *begin, *end;
  bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

bool in_host_slab(const ProgramValue& v) { return v.base == Base::slab && v.device < 0; }

// Which steps are over before which others begin.
class Order {
 public:
  explicit Order(const Program& p) : lanes_(p.lanes) {
    if (lanes_ <= 1) return;
    const size_t n = p.steps.size();
    words_ = (n + 63) / 64;
    before_.assign(n * words_, 0);
    std::vector<int32_t> lane_end(static_cast<size_t>(lanes_), -1);
    std::vector<int32_t> signaller(static_cast<size_t>(p.notifications), -1);
    for (size_t s = 0; s < n; ++s) {
      const ProgramStep& step = p.steps[s];
      follow(s, std::exchange(lane_end[step.lane], static_cast<int32_t>(s)));
      for (const int32_t w : step.extras->waits) follow(s, signaller[w]);
      for (const int32_t w : step.extras->signals) signaller[w] = static_cast<int32_t>(s);
    }
  }
  bool before(int32_t a, int32_t b) const {
    if (lanes_ <= 1) return a < b;
    return (before_[b * words_ + a / 64] >> (a % 64)) & 1u;
  }

 private:
  void follow(size_t s, int32_t earlier) {
    if (earlier < 0) return;
    for (size_t w = 0; w < words_; ++w) before_[s * words_ + w] |= before_[earlier * words_ + w];
    before_[s * words_ + earlier / 64] |= uint64_t{1} << (earlier % 64);
  }
  int32_t lanes_;
  size_t words_ = 0;
  std::vector<uint64_t> before_;  // row s: the steps before s
};

// Sorted and apart.
void merge(std::vector<Span>& spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  size_t kept = 0;
  for (const Span& s : spans) {
    if (s.begin == s.end) continue;
    if (kept > 0 && s.begin <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, s.end);
    } else {
      spans[kept++] = s;
    }
  }
  spans.resize(kept);
}

}  // namespace

// A graph or body that runs.
class ShadowSink::Graph {
 public:
  Graph(const Program& program, const SlabPlace& slab, std::byte poison, std::vector<std::string>& faults)
      : p_(program),
        regions_(slab.regions.begin(), slab.regions.end()),
        region_bytes_(slab.region_bytes),
        poison_(poison),
        faults_(faults),
        order_(program) {
    readers_.resize(p_.values.size());
    writer_.assign(p_.values.size(), -1);
    lasting_.assign(p_.values.size(), 0);
    kept_.resize(p_.values.size());
    phase_.assign(p_.steps.size(), Phase::waiting);
    spans_.resize(p_.steps.size());
    own_.resize(p_.steps.size());
    for (size_t s = 0; s < p_.steps.size(); ++s) {
      for (const int32_t v : p_.steps[s].inputs)
        if (v >= 0) readers_[v].push_back(static_cast<int32_t>(s));
      for (const int32_t v : p_.steps[s].outputs)
        if (v >= 0) writer_[v] = static_cast<int32_t>(s);
      if (on_device(static_cast<int32_t>(s))) device_steps_.push_back(static_cast<int32_t>(s));
    }
    for (const int32_t v : p_.outputs) lasting_[v] = 1;
    for (const Program::CopyOut& c : p_.copies) lasting_[c.from] = 1;
    for (const int32_t s : device_steps_) check_on_device(s);
    image_.resize(static_cast<size_t>(p_.slab_bytes));
    poison_free();
  }

  void begin(const StepEvent& event) {
    const ProgramStep& step = p_.steps[event.step];
    for (const int32_t d : device_steps_)
      if (phase_[d] != Phase::over && order_.before(d, event.step)) end_on_device(d);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int32_t v = step.inputs[i];
      if (v < 0) continue;
      if (kept_[v].state == State::none && writer_[v] >= 0 && on_device(writer_[v]))
        keep(v, shown(v, event.ctx->inputs[i]));
      if (writer_[v] >= 0 && !order_.before(writer_[v], event.step))
        fault("step {} reads '{}' and is not surely behind step {}, which makes it", step.name, name(v),
              p_.steps[writer_[v]].name);
      if (kept_[v].state == State::none && in_host_slab(p_.values[v]) && p_.values[v].bytes > 0) {
        fault("step {} reads '{}', which no step has made", step.name, name(v));
      } else if (!intact(v)) {
        fault("step {} finds '{}' spoilt", step.name, name(v));
      }
    }
    phase_[event.step] = Phase::running;
    check_own(event);
    spans_[event.step] = written_by(event);
  }

  void end(const StepEvent& event) {
    const ProgramStep& step = p_.steps[event.step];
    if (phase_[event.step] == Phase::over) return;
    check_strays(step);
    std::vector<Span> written = std::exchange(spans_[event.step], {});
    const auto outputs = [&](auto f) {
      for (size_t i = 0; i < step.outputs.size() && i < event.ctx->outputs.size(); ++i)
        if (step.outputs[i] >= 0) f(step.outputs[i], shown(step.outputs[i], event.ctx->outputs[i]));
    };
    outputs([&](int32_t v, const Span& s) {
      if (s.begin && p_.values[v].base == Base::output) written.push_back(s);
    });
    for (const int32_t v : step.inputs) {
      if (v < 0 || kept_[v].state != State::made || released(step, v) || intact(v)) continue;
      const Span input = kept_[v].span();
      const bool own = std::ranges::any_of(written, [&](const Span& s) { return s.meets(input); });
      if (!own) fault("'{}' was spoilt while step {} read it", name(v), step.name);
    }
    std::vector<Span> inputs;
    for (size_t i = 0; i < step.inputs.size() && i < event.ctx->inputs.size(); ++i)
      if (step.inputs[i] >= 0) inputs.push_back(shown(step.inputs[i], event.ctx->inputs[i]));
    merge(inputs);
    for (const Span& s : written) take_over(event.step, s, inputs);
    outputs([&](int32_t v, const Span& s) {
      if (!released(step, v)) keep(v, s);
    });
    for (const int32_t v : step.extras->release_after) check_release(event.step, v);
    finish(event.step);
  }

  // The device says so, or a step has begun that waited for it.
  void end_on_device(int32_t s) {
    if (phase_[s] == Phase::over) return;
    for (const int32_t v : p_.steps[s].outputs) {
      if (v < 0 || !in_host_slab(p_.values[v]) || !p_.values[v].known) continue;
      take_over(s, place(v), {});
      keep(v, place(v));
    }
    finish(s);
  }

 private:
  enum class Phase : uint8_t { waiting, running, over };
  // made: as its step left it. dead: everybody has read it. gone: others have its bytes.
  enum class State : uint8_t { none, made, dead, gone };
  struct Kept {
    State state = State::none;
    const std::byte* at = nullptr;
    std::vector<std::byte> bytes;
    Span span() const { return {at, at + bytes.size()}; }
  };

  template <typename... Args>
  void fault(fmt::format_string<Args...> text, Args&&... args) {
    faults_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  std::string_view name(int32_t v) const { return p_.values[v].name; }
  bool on_device(int32_t s) const {
    const auto lane = static_cast<size_t>(p_.steps[s].lane);
    return lane < p_.lane_device.size() && p_.lane_device[lane] >= 0;
  }
  // Bytes that the plan gave a place: others get them by the plan alone.
  bool planned(int32_t v) const { return in_host_slab(p_.values[v]) || p_.values[v].base == Base::output; }
  // In a part of its bytes.
  static bool unchanged(const Kept& k, const Span& part) {
    const auto bytes = static_cast<size_t>(part.end - part.begin);
    return bytes == 0 || std::memcmp(k.bytes.data() + (part.begin - k.at), part.begin, bytes) == 0;
  }
  bool intact(int32_t v) const {
    if (kept_[v].state == State::gone) return !planned(v);
    return kept_[v].state != State::made || unchanged(kept_[v], kept_[v].span());
  }

  // Whether its buffer went back when the step was over, before anybody could look.
  bool released(const ProgramStep& step, int32_t v) const {
    const int32_t root = p_.values[v].root >= 0 ? p_.values[v].root : v;
    return std::ranges::count(step.extras->release_after, root) > 0;
  }

  // The bytes of the slab that a step of the host may write: its outputs, its scratch, its bodies.
  std::vector<Span> written_by(const StepEvent& event) const {
    std::vector<Span> all = own(event);
    for (const int32_t v : p_.steps[event.step].outputs)
      if (v >= 0 && in_host_slab(p_.values[v])) all.push_back(place(v));
    return all;
  }
  // Those among them that are no values: its scratch and its bodies.
  std::vector<Span> own(const StepEvent& event) const {
    const ProgramStep& step = p_.steps[event.step];
    std::vector<Span> all;
    const auto add = [&](int64_t offset, int64_t bytes) {
      const std::byte* const begin = slab().at(offset);
      all.push_back({begin, begin + bytes});
    };
    const auto workers = static_cast<size_t>(event.ctx->host->workers());
    if (event.ctx->scratch_data)
      add(step.scratch_offset, static_cast<int64_t>(step.scratch_shared + workers * step.scratch_per_worker));
    for (const StepExtras::Body& body : step.extras->bodies)
      if (body.slab_offset >= 0) add(body.slab_offset, body.slab_bytes);
    return all;
  }
  SlabPlace slab() const { return {regions_, region_bytes_}; }
  Span place(int32_t v) const {  // of a value of the host's slab
    const std::byte* const at = slab().at(p_.values[v].offset);
    return {at, at + p_.values[v].bytes};
  }
  // Bytes that are no value leave nothing to find spoilt. So what they may not meet is looked for before the step runs:
  // the values and the like of all steps that may run at the same time, whether they have run yet or not, and its own.
  void check_own(const StepEvent& event) {
    own_[event.step] = own(event);
    const std::vector<Span>& mine = own_[event.step];
    const auto on_mine = [&](const Span& s) {
      return s.begin != s.end && std::ranges::any_of(mine, [&](const Span& m) { return m.meets(s); });
    };
    if (mine.empty()) return;
    for (int32_t other = 0; other < static_cast<int32_t>(p_.steps.size()); ++other) {
      if (other != event.step && (order_.before(other, event.step) || order_.before(event.step, other))) continue;
      const ProgramStep& step = p_.steps[other];
      for (const auto* list : {&step.inputs, &step.outputs}) {
        for (const int32_t v : *list) {
          if (v >= 0 && in_host_slab(p_.values[v]) && on_mine(place(v)))
            fault("step {} has scratch or a body where step {} has '{}'", p_.steps[event.step].name, step.name,
                  name(v));
        }
      }
      if (other != event.step && std::ranges::any_of(own_[other], on_mine))
        fault("steps {} and {} have scratch or a body in the same place", p_.steps[event.step].name, step.name);
    }
  }

  // What steps write now, or may write now as far as the host can tell.
  std::vector<Span> being_written() const {
    std::vector<Span> all;
    for (size_t s = 0; s < spans_.size(); ++s)
      if (phase_[s] == Phase::running) all.insert(all.end(), spans_[s].begin(), spans_[s].end());
    for (const int32_t d : device_steps_) {
      if (phase_[d] == Phase::over || !may_run(d)) continue;
      for (const int32_t v : p_.steps[d].outputs) {
        if (v >= 0 && in_host_slab(p_.values[v])) all.push_back(place(v));
      }
    }
    return all;
  }
  bool may_run(int32_t d) const {
    for (size_t s = 0; s < phase_.size(); ++s) {
      const auto step = static_cast<int32_t>(s);
      if (phase_[s] != Phase::over && !on_device(step) && order_.before(step, d)) return false;
    }
    return true;
  }

  // Calls f(at, begin, end) for the parts of the slab outside of `spans`, each in one region: offsets in the slab, and
  // where it lies.
  template <typename F>
  void outside(std::vector<Span> spans, F f) const {
    merge(spans);
    const auto bytes = static_cast<int64_t>(image_.size());
    for (size_t r = 0; r < regions_.size(); ++r) {
      const int64_t offset = static_cast<int64_t>(r) * region_bytes_;
      std::byte* const base = regions_[r];
      const std::byte* const end = base + (region_bytes_ > 0 ? std::min(region_bytes_, bytes - offset) : bytes);
      const auto part = [&](const std::byte* b, const std::byte* e) {
        f(base + (b - base), offset + (b - base), offset + (e - base));
      };
      const std::byte* from = base;
      for (const Span& s : spans) {
        if (s.begin >= end || s.end <= base) continue;
        if (s.begin > from) part(from, s.begin);
        from = std::max(from, s.end);
      }
      if (from < end) part(from, end);
    }
  }

  // Every byte of the slab that changed must be one that a step may write.
  void check_strays(const ProgramStep& step) {
    bool told = false;
    outside(being_written(), [&](const std::byte* at, int64_t begin, int64_t end) {
      if (told || std::memcmp(image_.data() + begin, at, static_cast<size_t>(end - begin)) == 0) return;
      const auto was = std::mismatch(image_.begin() + begin, image_.begin() + end, at).first;
      told = true;
      fault("step {} wrote at byte {} of the slab, which is none of its outputs", step.name, was - image_.begin());
    });
  }

  // Values whose bytes step `s`, with these inputs, has written: everybody must have been through with them.
  void take_over(int32_t s, const Span& span, const std::vector<Span>& inputs) {
    const auto within_inputs = [&](const Span& part) {
      return std::ranges::any_of(inputs, [&](const Span& i) { return i.begin <= part.begin && part.end <= i.end; });
    };
    for (size_t v = 0; v < kept_.size(); ++v) {
      Kept& k = kept_[v];
      const auto value = static_cast<int32_t>(v);
      if ((k.state != State::made && k.state != State::dead) || !planned(value) || !k.span().meets(span)) continue;
      const Span part{std::max(k.span().begin, span.begin), std::min(k.span().end, span.end)};
      if (unchanged(k, part) && within_inputs(part)) continue;  // a view of it, or it is a window of what was made
      check_through(s, value, "writes over");
      if (k.state == State::made && lasting_[v])
        fault("step {} writes over '{}', which is an output", p_.steps[s].name, name(value));
      k.state = State::gone;
    }
  }
  void check_through(int32_t s, int32_t v, const char* does) {
    const auto unsure = [&](int32_t other) { return other >= 0 && other != s && !order_.before(other, s); };
    if (unsure(writer_[v]))
      fault("step {} {} '{}' and is not surely behind step {}, which makes it", p_.steps[s].name, does, name(v),
            p_.steps[writer_[v]].name);
    for (const int32_t r : readers_[v]) {
      if (unsure(r))
        return fault("step {} {} '{}' and is not surely behind step {}, which reads it", p_.steps[s].name, does,
                     name(v), p_.steps[r].name);
    }
  }
  // Nobody can look at a device's memory, and devices need not tell when a step is over: what their steps do to each
  // other is told from places and order, before any runs.
  void check_on_device(int32_t s) {
    for (const int32_t v : p_.steps[s].inputs) {
      if (v >= 0 && writer_[v] >= 0 && !order_.before(writer_[v], s))
        fault("step {} reads '{}' and is not surely behind step {}, which makes it", p_.steps[s].name, name(v),
              p_.steps[writer_[v]].name);
    }
    for (const int32_t v : p_.steps[s].outputs) {
      if (v < 0 || p_.values[v].base != Base::slab) continue;
      const std::vector<int32_t> kept = made_of(v);
      for (size_t other = 0; other < kept_.size(); ++other) {
        const auto o = static_cast<int32_t>(other);
        if (writer_[o] < 0 || writer_[o] == s || order_.before(s, writer_[o]) || !same_place(v, o)) continue;
        const std::vector<int32_t> theirs = made_of(o);
        const bool related = std::ranges::any_of(theirs, [&](int32_t t) { return std::ranges::count(kept, t) > 0; });
        if (!related) check_through(s, o, "writes over");
      }
    }
  }
  bool same_place(int32_t a, int32_t b) const {
    const ProgramValue &x = p_.values[a], &y = p_.values[b];
    return x.base == Base::slab && y.base == Base::slab && x.device == y.device && x.offset < y.offset + y.bytes &&
           y.offset < x.offset + x.bytes;
  }
  // The value, and those that it may show again as views and windows do: what its step reads in its place, and on.
  std::vector<int32_t> made_of(int32_t v) const {
    std::vector<int32_t> all = {v};
    for (size_t i = 0; i < all.size(); ++i) {
      if (writer_[all[i]] < 0) continue;
      for (const int32_t r : p_.steps[writer_[all[i]]].inputs)
        if (r >= 0 && same_place(r, all[i]) && std::ranges::count(all, r) == 0) all.push_back(r);
    }
    return all;
  }

  // Its buffer is back in the arena, for any lane to take.
  void check_release(int32_t s, int32_t v) {
    for (size_t view = 0; view < p_.values.size(); ++view) {
      if (static_cast<int32_t>(view) != v && p_.values[view].root != v) continue;
      check_through(s, static_cast<int32_t>(view), "gives back");
      kept_[view] = {State::gone, nullptr, {}};
    }
  }

  void keep(int32_t v, const Span& s) {
    if (s.begin) kept_[v] = {State::made, s.begin, {s.begin, s.end}};
  }
  // Of the host's bytes that an argument shows; empty: none, or no plain bytes.
  Span shown(int32_t v, const Arg& arg) const {
    const ProgramValue& value = p_.values[v];
    const bool here = value.base == Base::slab ? value.device < 0 : value.base != Base::none;
    if (!here || !arg.data || arg.object || arg.dtype == DType::kString || arg.dtype == DType::kUndefined)
      return {nullptr, nullptr};
    const auto* const at = static_cast<const std::byte*>(arg.data) - value.first;
    return {at, at + (value.known ? value.bytes : storage_bytes(arg.dtype, arg.layout, arg.dims()).value_or(0))};
  }

  void finish(int32_t s) {
    phase_[s] = Phase::over;
    for (const auto* list : {&p_.steps[s].inputs, &p_.steps[s].outputs}) {
      for (const int32_t v : *list) {
        if (v < 0 || kept_[v].state != State::made || lasting_[v]) continue;
        if (std::ranges::all_of(readers_[v], [&](int32_t r) { return phase_[r] == Phase::over; }))
          kept_[v].state = State::dead;
      }
    }
    poison_free();
  }

  // Fills what nobody needs and takes the picture that strays are told by.
  void poison_free() {
    const std::vector<Span> written = being_written();
    std::vector<Span> used = written;
    for (size_t v = 0; v < kept_.size(); ++v)
      if (kept_[v].state == State::made && in_host_slab(p_.values[v])) used.push_back(kept_[v].span());
    outside(std::move(used), [&](std::byte* at, int64_t begin, int64_t end) {
      std::memset(at, static_cast<int>(poison_), static_cast<size_t>(end - begin));
    });
    outside(written, [&](const std::byte* at, int64_t begin, int64_t end) {
      std::copy(at, at + (end - begin), image_.begin() + begin);
    });
  }

  const Program& p_;
  const std::vector<std::byte*> regions_;  // of the slab
  const int64_t region_bytes_;
  const std::byte poison_;
  std::vector<std::string>& faults_;
  const Order order_;
  std::vector<std::vector<int32_t>> readers_;  // by value
  std::vector<int32_t> writer_;                // by value; -1: none
  std::vector<uint8_t> lasting_;               // by value: wanted when the steps are over
  std::vector<int32_t> device_steps_;
  std::vector<Kept> kept_;                // by value
  std::vector<Phase> phase_;              // by step
  std::vector<std::vector<Span>> spans_;  // by step that runs
  std::vector<std::vector<Span>> own_;    // by step that has begun
  std::vector<std::byte> image_;          // of the slab; stale where steps write
};

ShadowSink::ShadowSink(std::byte poison) : poison_(poison) {}
ShadowSink::~ShadowSink() = default;

ShadowSink::Graph* ShadowSink::find(const StepEvent& event) {
  const auto at = graphs_.find(event.program);
  return at == graphs_.end() ? nullptr : at->second.get();
}

void ShadowSink::on_run(const Program& program, int32_t depth, const SlabPlace& slab) {
  const std::lock_guard lock(mutex_);
  if (depth == 0) graphs_.clear();
  graphs_[&program] = std::make_unique<Graph>(program, slab, poison_, faults_);
}

void ShadowSink::on_begin(const StepEvent& event) {
  const std::lock_guard lock(mutex_);
  if (Graph* graph = find(event)) graph->begin(event);
}

void ShadowSink::on_step(const StepEvent& event) {
  const std::lock_guard lock(mutex_);
  Graph* graph = find(event);
  if (!graph) return;
  ++steps_;
  if (event.ctx) {
    graph->end(event);
  } else {
    graph->end_on_device(event.step);
  }
}

}  // namespace forethought
