#include "session/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "plan/report.h"
#include "session/compile.h"

namespace forethought {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr int kRunsRow = 0;  // rows of lanes follow

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string text_of(const Arg& a) {
  if (!a.present) return "";
  return a.object && !a.data ? "object" : absl::StrCat(name(a.dtype), to_string(a.dims()));
}

// What an Arg cannot tell of a step that ran on a device stands in the program, where it was known at planning.
std::string text_of(const Program& p, int32_t value) {
  if (value < 0) return "";
  const ProgramValue& v = p.values[value];
  return v.known ? absl::StrCat(name(v.dtype), to_string(v.dims)) : std::string(name(v.dtype));
}

}  // namespace

void TraceRecorder::begin_run() {
  const std::lock_guard lock(mutex_);
  run_ = {now_ns(), 0, {}};
  unplaced_.clear();
  live_program_ = nullptr;
}

void TraceRecorder::on_step(const StepEvent& event) {
  // Every program of a session was made by compile().
  const auto& program = *static_cast<const CompiledProgram*>(event.program);
  const ProgramStep& step = program.steps[event.step];
  Step s{.name = std::string(step.name),
         .waits = {step.extras->waits.begin(), step.extras->waits.end()},
         .signals = {step.extras->signals.begin(), step.extras->signals.end()},
         .begin_ns = event.begin_ns,
         .end_ns = event.end_ns,
         .step = event.step,
         .depth = event.depth,
         .lane = step.lane,
         .root_lane = event.depth == 0 ? step.lane : -1};
  s.kernel = step.runnable ? (*program.facts)[event.step]->kernel : "chosen at run";
  if (event.ctx) {
    for (const Arg& a : event.ctx->inputs) s.inputs.push_back(text_of(a));
    for (const Arg& a : event.ctx->outputs) s.outputs.push_back(text_of(a));
  } else {
    for (const int32_t v : step.inputs) s.inputs.push_back(text_of(program, v));
    for (const int32_t v : step.outputs) s.outputs.push_back(text_of(program, v));
  }
  if (event.depth == 0 && counters_) s.memory = counters_();
  const std::lock_guard lock(mutex_);
  s.thread = threads_.try_emplace(std::this_thread::get_id(), static_cast<int32_t>(threads_.size())).first->second;
  if (event.depth > 0) {
    unplaced_.push_back(run_.steps.size());
  } else {
    if (live_program_ != &program) {
      live_ = live_bytes(program.problem(), program.plan);
      live_program_ = &program;
    }
    if (static_cast<size_t>(event.step) < live_.size()) s.planned_live = live_[event.step];
    place_bodies(s);
  }
  run_.steps.push_back(std::move(s));
}

// Steps of bodies are told of before the step that runs them: they lie within its time, and most on its thread.
void TraceRecorder::place_bodies(const Step& around) {
  const auto inside = [&](size_t i) {
    Step& s = run_.steps[i];
    if (s.begin_ns < around.begin_ns || s.end_ns > around.end_ns) return false;
    if (s.lane == 0 && s.thread != around.thread) return false;
    s.root_lane = around.lane;
    return true;
  };
  unplaced_.erase(std::remove_if(unplaced_.begin(), unplaced_.end(), inside), unplaced_.end());
}

void TraceRecorder::end_run() {
  const std::lock_guard lock(mutex_);
  for (const size_t i : unplaced_) run_.steps[i].root_lane = 0;
  run_.end_ns = now_ns();
  runs_.push_back(std::exchange(run_, {}));
}

namespace {

// Writes events of the format; see "Trace Event Format" of the Chromium project.
class Writer {
 public:
  explicit Writer(int64_t start_ns) : start_ns_(start_ns) {}

  // The row of a lane of the main graph, or of another lane than the first of a body that runs in it.
  int row(int32_t lane, int32_t depth, int32_t body_lane) {
    if (depth == 0 || body_lane == 0) depth = body_lane = 0;
    const auto [it, is_new] =
        rows_.try_emplace({lane, depth, body_lane}, kRunsRow + 1 + static_cast<int>(rows_.size()));
    if (is_new) {
      std::string title = absl::StrCat("lane ", lane);
      if (depth > 0) absl::StrAppend(&title, ", lane ", body_lane, " of a body at depth ", depth);
      name_row(it->second, title, lane * 100 + depth * 10 + body_lane + 1);
    }
    return it->second;
  }
  void name_process(std::string_view title) {
    add({{"name", "process_name"}, {"ph", "M"}, {"pid", kProcess}, {"tid", kRunsRow}, {"args", {{"name", title}}}});
  }
  void name_row(int row, std::string_view title, int order) {
    add({{"name", "thread_name"}, {"ph", "M"}, {"pid", kProcess}, {"tid", row}, {"args", {{"name", title}}}});
    add({{"name", "thread_sort_index"},
         {"ph", "M"},
         {"pid", kProcess},
         {"tid", row},
         {"args", {{"sort_index", order}}}});
  }
  void slice(std::string_view name, const char* category, int row, int64_t begin_ns, int64_t end_ns, Json args) {
    Json e = event(name, category, "X", row, begin_ns);
    e["dur"] = static_cast<double>(end_ns - begin_ns) / 1e3;
    e["args"] = std::move(args);
    add(std::move(e));
  }
  void counter(std::string_view name, int64_t at_ns, Json values) {
    Json e = event(name, "memory", "C", kRunsRow, at_ns);
    e["args"] = std::move(values);
    add(std::move(e));
  }
  // From the slice that is under way on one row at one time to the slice that begins on another row.
  void arrow(std::string_view name, int from_row, int64_t from_ns, int to_row, int64_t to_ns) {
    Json from = event(name, "notification", "s", from_row, from_ns),
         to = event(name, "notification", "f", to_row, to_ns);
    from["id"] = to["id"] = ++arrows_;
    to["bp"] = "e";
    add(std::move(from));
    add(std::move(to));
  }
  Json take() { return std::move(events_); }

 private:
  Json event(std::string_view name, const char* category, const char* phase, int row, int64_t at_ns) const {
    return {{"name", name},    {"cat", category}, {"ph", phase},
            {"pid", kProcess}, {"tid", row},      {"ts", static_cast<double>(at_ns - start_ns_) / 1e3}};
  }
  void add(Json e) { events_.push_back(std::move(e)); }

  const int64_t start_ns_;
  Json events_ = Json::array();
  std::map<std::tuple<int32_t, int32_t, int32_t>, int> rows_;
  int arrows_ = 0;
};

}  // namespace

std::string TraceRecorder::take(std::string_view model) {
  const std::lock_guard lock(mutex_);
  const std::vector<Run> runs = std::exchange(runs_, {});
  Writer out(runs.empty() ? 0 : runs.front().begin_ns);
  out.name_process(model);
  out.name_row(kRunsRow, "runs", 0);
  for (size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    out.slice(fmt::format("run {}", r), "run", kRunsRow, run.begin_ns, run.end_ns, {{"steps", run.steps.size()}});
    std::vector<const Step*> steps, main;
    for (const Step& s : run.steps) steps.push_back(&s);
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step* a, const Step* b) { return a->begin_ns < b->begin_ns; });
    std::map<int32_t, const Step*> gives;  // by notification of the main graph
    std::map<int32_t, int64_t> lane_over;  // by lane: when its last step so far ended
    for (const Step* s : steps) {
      if (s->depth == 0) main.push_back(s);
      if (s->depth == 0)
        for (const int32_t n : s->signals) gives[n] = s;
    }
    for (const Step* s : steps) {
      const int row = out.row(s->root_lane, s->depth, s->lane);
      Json args{{"step", s->step},       {"kernel", s->kernel}, {"inputs", s->inputs},
                {"outputs", s->outputs}, {"thread", s->thread}, {"depth", s->depth}};
      if (s->depth == 0 && !s->waits.empty()) {
        Json awaited = Json::array();
        for (const int32_t n : s->waits) {
          const auto giver = gives.find(n);
          if (giver == gives.end() || giver->second->lane == s->lane) continue;
          const Step& g = *giver->second;
          awaited.push_back(g.name);
          out.arrow(fmt::format("notification {}", n), out.row(g.lane, 0, 0), g.begin_ns + (g.end_ns - g.begin_ns) / 2,
                    row, s->begin_ns);
        }
        const auto over = lane_over.find(s->lane);
        const int64_t since = over == lane_over.end() ? run.begin_ns : over->second;
        if (!awaited.empty() && since < s->begin_ns)
          out.slice("wait", "wait", row, since, s->begin_ns, {{"before", s->name}, {"for", awaited}});
      }
      out.slice(s->name, s->depth == 0 ? "step" : "body", row, s->begin_ns, s->end_ns, std::move(args));
      if (s->depth == 0) lane_over[s->lane] = s->end_ns;
    }
    for (const Step* s : main) out.counter("planned live bytes", s->begin_ns, {{"bytes", s->planned_live}});
    out.counter("planned live bytes", run.end_ns, {{"bytes", 0}});
    for (const Step* s : main) {
      Json parts = Json::object();
      for (const auto& [part, bytes] : s->memory) parts[part] = bytes;
      if (!parts.empty()) out.counter("memory", s->end_ns, std::move(parts));
    }
  }
  const Json trace{{"traceEvents", out.take()}, {"displayTimeUnit", "ns"}, {"otherData", {{"model", model}}}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace forethought
