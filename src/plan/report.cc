// A plan as text for people and as JSON for programs: what lives where, for how long, with whom, and why.
#include "plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "base/checked.h"
#include "plan/names.h"
#include "plan/sharers.h"

namespace forethought {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kFewSharers = 8;    // named in a line of text
constexpr size_t kMostSharers = 16;  // listed for each value in a report of everything

std::string bytes_text(int64_t bytes, int64_t most) {
  if (bytes != kUnknownSize) return fmt::format("{} B", bytes);
  return most == kUnknownSize ? "known at run" : fmt::format("known at run, at most {} B", most);
}

Json bytes_json(int64_t bytes) { return bytes == kUnknownSize ? Json() : Json(bytes); }

std::string slots_text(const SlabFigures& f) {
  return f.slots == 0 ? "" : fmt::format(" in {} slot{}", f.slots, f.slots == 1 ? "" : "s");
}

std::string regions_text(const SlabFigures& f) {
  return f.region == 0 ? "" : fmt::format(", {} regions of {} B", f.regions(), f.region);
}

// Why the value is where it is.
std::string reason(const PlanProblem& p, const Plan& plan, ValueNo v) {
  const ValuePlace& pl = plan.values[v];
  const std::string partner = pl.partner == kNoId ? "" : value_label(p, pl.partner);
  switch (pl.place) {
    case Place::view:
      return fmt::format("view of {}", partner);
    case Place::over:
      return fmt::format("written over {}", partner);
    case Place::under:
      return fmt::format("born in the bytes of {}, which replaces or views it", partner);
    case Place::inside:
      return fmt::format("born in its window of {}", partner);
    case Place::own:
      break;
  }
  switch (pl.arena) {
    case ArenaKind::none:
      return pl.first_step == kNoId ? "no step touches it" : "an object of the frame";
    case ArenaKind::slab:
      return pl.role == Role::scratch ? "scratch of its step" : "bytes of its own";
    case ArenaKind::input:
      return "the caller's input";
    case ArenaKind::output:
      return "an output's buffer";
    case ArenaKind::weights:
      return "a weight";
    case ArenaKind::side:
      return pl.bytes == kUnknownSize ? "size known at run" : "counted: it escapes into an object";
  }
  return "";
}

bool in_scope(const PlanStep& step, StepNo s, const ReportScope& scope) {
  if (scope.step != kNoId) return s == scope.step;
  if (scope.value == kNoId) return true;
  const auto has = [&](std::span<const ValueNo> list) {
    return std::find(list.begin(), list.end(), scope.value) != list.end();
  };
  return has(step.reads) || has(step.writes);
}

std::vector<ValueNo> values_in_scope(const PlanProblem& p, const ReportScope& scope) {
  std::vector<ValueNo> chosen;
  if (scope.value != kNoId) {
    if (scope.value >= 0 && static_cast<size_t>(scope.value) < p.values.size()) chosen.push_back(scope.value);
  } else if (scope.step != kNoId) {
    if (scope.step < 0 || static_cast<size_t>(scope.step) >= p.steps.size()) return chosen;
    chosen.assign(p.steps[scope.step].reads.begin(), p.steps[scope.step].reads.end());
    chosen.insert(chosen.end(), p.steps[scope.step].writes.begin(), p.steps[scope.step].writes.end());
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  } else {
    for (size_t v = 0; v < p.values.size(); ++v) chosen.push_back(static_cast<ValueNo>(v));
  }
  return chosen;
}

// Calls f(kind, from, to, offset, honoured) for the facts of a step.
template <typename F>
void each_fact(const PlanProblem& p, const Plan& plan, StepNo s, F&& f) {
  const PlanStep& step = p.steps[s];
  for (size_t i = 0; i < step.aliases.size(); ++i) {
    f("view", step.aliases[i].out, step.aliases[i].in, step.aliases[i].byte_offset, plan.alias_honoured(s, i));
  }
  for (size_t i = 0; i < step.may_overwrite.size(); ++i) {
    f("overwrite", step.may_overwrite[i].out, step.may_overwrite[i].in, int64_t{0}, plan.overwrite_honoured(s, i));
  }
  for (size_t i = 0; i < step.windows.size(); ++i) {
    f("window", step.windows[i].in, step.windows[i].out, step.windows[i].byte_offset, plan.window_honoured(s, i));
  }
}

std::string list_text(const PlanProblem& p, std::span<const ValueNo> ids, size_t most) {
  std::string s;
  for (size_t i = 0; i < ids.size() && i < most; ++i) s += (i ? ", " : "") + value_label(p, ids[i]);
  if (ids.size() > most) s += fmt::format(" and {} more", ids.size() - most);
  return s;
}

// "3 buffers outside the plan, at most 96 B together; nothing bounds %4 r of #1 Range"
std::string unplanned_text(const PlanProblem& p, const Unplanned& u) {
  const size_t count = u.values.size(), bounded = count - u.unbounded.size();
  std::string text = fmt::format("{} buffer{} outside the plan", count, count == 1 ? "" : "s");
  if (bounded > 0) text += fmt::format(", at most {} B{}", u.most_bytes, bounded == 1 ? "" : " together");
  if (bounded > 0 && bounded < count) text += fmt::format(" for {} of them", bounded);
  constexpr size_t kNamed = 5;
  for (size_t i = 0; i < u.unbounded.size() && i < kNamed; ++i) {
    const ValueNo v = u.unbounded[i];
    text += fmt::format("{}{}", i == 0 ? "; nothing bounds " : ", ", value_label(p, v));
    const auto makes = [v](const PlanStep& s) { return std::ranges::find(s.writes, v) != s.writes.end(); };
    const auto step = std::ranges::find_if(p.steps, makes);
    if (step != p.steps.end())
      text += fmt::format(" of {}", step_label(p, static_cast<StepNo>(step - p.steps.begin())));
  }
  if (u.unbounded.size() > kNamed) text += fmt::format(" and {} more", u.unbounded.size() - kNamed);
  return text;
}

}  // namespace

Unplanned unplanned(const PlanProblem& p, const Plan& plan) {
  Unplanned u;
  for (ValueNo v = 0; static_cast<size_t>(v) < plan.values.size(); ++v) {
    const ValuePlace& at = plan.values[v];
    const bool late_output = at.arena == ArenaKind::output && at.bytes == kUnknownSize;
    if (at.root != v || (at.arena != ArenaKind::side && !late_output)) continue;
    u.values.push_back(v);
    const int64_t most = at.bytes == kUnknownSize ? p.values[v].most_bytes : at.bytes;
    const std::optional<int64_t> sum = most == kUnknownSize ? std::nullopt : checked_add(u.most_bytes, most);
    if (sum) {
      u.most_bytes = *sum;
    } else {
      u.unbounded.push_back(v);
    }
  }
  return u;
}

std::vector<int64_t> live_bytes(const PlanProblem& p, const Plan& plan, int32_t device) {
  struct Storage {
    StepNo first = std::numeric_limits<StepNo>::max(), last = kNoId;
    int64_t bytes = 0;
  };
  std::vector<Storage> storages(plan.values.size());  // by root
  for (const ValuePlace& pl : plan.values) {
    if (pl.arena != ArenaKind::slab || pl.index != device || pl.first_step == kNoId) continue;
    Storage& st = storages[pl.root];
    st.first = std::min(st.first, pl.first_step);
    st.last = std::max(st.last, pl.last_step);
    st.bytes = std::max(st.bytes, pl.offset_in_root + pl.bytes);
  }
  std::vector<int64_t> live(p.steps.size() + 1);
  for (const Storage& st : storages) {
    if (st.last == kNoId) continue;
    const auto bytes = static_cast<int64_t>(round_up(static_cast<size_t>(st.bytes), p.granule));
    live[st.first] += bytes;
    live[st.last + 1] -= bytes;
  }
  live.pop_back();
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

std::string to_text(const PlanProblem& p, const Plan& plan, ReportScope scope) {
  fmt::memory_buffer out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "plan: {} steps in {} lane{}, {} values\n", p.steps.size(), p.lanes, p.lanes == 1 ? "" : "s",
                 p.values.size());
  fmt::format_to(
      to, "  naive {} B, lower bound {} B, peak {} B{}{} (peak / lower bound {:.3f}), padding {} B, {} side buffers\n",
      plan.naive, plan.lower_bound, plan.peak, slots_text(plan), regions_text(plan),
      plan.lower_bound ? static_cast<double>(plan.peak) / static_cast<double>(plan.lower_bound) : 1.0, plan.padding,
      plan.side_values);
  if (const Unplanned late = unplanned(p, plan); !late.values.empty())
    fmt::format_to(to, "  {}\n", unplanned_text(p, late));
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const SlabFigures& f = plan.devices[d];
    fmt::format_to(to, "  device {}: naive {} B, lower bound {} B, peak {} B{}{}, padding {} B\n", d, f.naive,
                   f.lower_bound, f.peak, slots_text(f), regions_text(f), f.padding);
  }
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const StepNo s = static_cast<StepNo>(i);
    const PlanStep& step = p.steps[i];
    if (!in_scope(step, s, scope)) continue;
    fmt::format_to(to, "step {} lane {}: {} -> {}\n", step_label(p, s), step.lane, list_text(p, step.reads, 16),
                   list_text(p, step.writes, 16));
    for (const int32_t n : step.waits) fmt::format_to(to, "    waits for notification {}\n", n);
    for (const int32_t n : step.signals) fmt::format_to(to, "    gives notification {}\n", n);
    each_fact(p, plan, s, [&](const char* kind, ValueNo a, ValueNo b, int64_t offset, bool honoured) {
      fmt::format_to(to, "    {} {} of {} at {}: {}\n", kind, value_label(p, a), value_label(p, b), offset,
                     honoured ? "honoured" : "refused");
    });
  }
  const Sharers sharers(plan);
  for (const ValueNo v : values_in_scope(p, scope)) {
    const ValuePlace& pl = plan.values[v];
    fmt::format_to(to, "value {}: {}, {}", value_label(p, v), name(pl.role), name(pl.arena));
    if (pl.index != kNoId) fmt::format_to(to, "{} {}", pl.arena == ArenaKind::slab ? " of device" : "", pl.index);
    if (pl.arena != ArenaKind::none)
      fmt::format_to(to, " at {}, {}", pl.offset, bytes_text(pl.bytes, p.values[v].most_bytes));
    if (pl.first_step != kNoId) fmt::format_to(to, ", steps {}..{}", pl.first_step, pl.last_step);
    if (pl.root != v) fmt::format_to(to, ", root {}", value_label(p, pl.root));
    fmt::format_to(to, "; {}", reason(p, plan, v));
    if (const int64_t all = sharers.count(v); all > 0) {
      const std::vector<ValueNo> with = sharers.nearest(v, kFewSharers);
      fmt::format_to(to, "; shares with {}", list_text(p, with, with.size()));
      if (all > static_cast<int64_t>(with.size())) fmt::format_to(to, " and {} more", all - with.size());
    }
    fmt::format_to(to, "\n");
  }
  return fmt::to_string(out);
}

std::string to_json(const PlanProblem& p, const Plan& plan, ReportScope scope) {
  const Unplanned late = unplanned(p, plan);
  Json root{
      {"lanes", p.lanes},
      {"naive", plan.naive},
      {"lower_bound", plan.lower_bound},
      {"peak", plan.peak},
      {"slots", plan.slots},
      {"region", plan.region},
      {"padding", plan.padding},
      {"side_values", plan.side_values},
      {"unplanned", {{"values", late.values.size()}, {"most_bytes", late.most_bytes}, {"unbounded", late.unbounded}}},
      {"live", live_bytes(p, plan)},
      {"steps", Json::array()},
      {"values", Json::array()}};
  const Sharers sharers(plan);
  const size_t most = scope.value == kNoId && scope.step == kNoId ? kMostSharers : std::numeric_limits<size_t>::max();
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const StepNo s = static_cast<StepNo>(i);
    const PlanStep& step = p.steps[i];
    if (!in_scope(step, s, scope)) continue;
    Json entry{{"id", s},
               {"name", step.name},
               {"lane", step.lane},
               {"reads", step.reads},
               {"writes", step.writes},
               {"waits", step.waits},
               {"signals", step.signals},
               {"facts", Json::array()}};
    each_fact(p, plan, s, [&](const char* kind, ValueNo a, ValueNo b, int64_t offset, bool honoured) {
      entry["facts"].push_back({{"kind", kind}, {"of", a}, {"in", b}, {"offset", offset}, {"honoured", honoured}});
    });
    root["steps"].push_back(std::move(entry));
  }
  for (const ValueNo v : values_in_scope(p, scope)) {
    const ValuePlace& pl = plan.values[v];
    Json entry{{"id", v},
               {"name", p.values[v].name},
               {"role", name(pl.role)},
               {"device", p.values[v].device},
               {"arena", name(pl.arena)},
               {"index", pl.index},
               {"offset", pl.offset},
               {"bytes", pl.bytes},
               {"first_step", pl.first_step},
               {"last_step", pl.last_step},
               {"most_bytes", pl.bytes == kUnknownSize ? bytes_json(p.values[v].most_bytes) : Json()},
               {"root", pl.root},
               {"offset_in_root", pl.offset_in_root},
               {"place", name(pl.place)},
               {"partner", pl.partner},
               {"overwrites", pl.overwrites},
               {"sharers", sharers.nearest(v, most)},
               {"sharer_count", sharers.count(v)},
               {"reason", reason(p, plan, v)}};
    root["values"].push_back(std::move(entry));
  }
  for (size_t d = 0; d < plan.devices.size(); ++d) {
    const SlabFigures& f = plan.devices[d];
    root["devices"].push_back({{"naive", f.naive},
                               {"lower_bound", f.lower_bound},
                               {"peak", f.peak},
                               {"slots", f.slots},
                               {"region", f.region},
                               {"padding", f.padding},
                               {"live", live_bytes(p, plan, static_cast<int32_t>(d))}});
  }
  return root.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace forethought
