// Traces of programs with lanes: rows, waits, arrows between lanes, planned bytes and counters.
#include "session/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "session/compile.h"

namespace forethought {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

// a on lane 0 gives what b on lane 1 waits for; both write 256 bytes.
std::shared_ptr<CompiledProgram> two_lanes() {
  auto p = std::make_shared<CompiledProgram>();
  p->lanes = 2;
  p->notifications = 1;
  static constexpr int64_t dims[] = {64};
  static constexpr int32_t numbers[] = {0, 1, 2};
  const char* names[] = {"a (Relu)", "b (Neg)"};
  std::vector<PlanValue> values;
  for (int32_t i = 0; i < 3; ++i) {
    PlanValue v;
    v.bytes = 256;
    v.role = i == 0 ? Role::input : i == 1 ? Role::execution : Role::output;
    v.index = i == 1 ? kNoId : 0;
    values.push_back(v);
    ProgramValue facts;
    facts.dtype = DType::kFloat;
    facts.known = true;
    facts.dims = dims;
    p->values.push_back(facts);
  }
  std::vector<std::shared_ptr<const KernelFacts>> facts_of;
  for (int32_t i = 0; i < 2; ++i) {
    ProgramStep step;
    step.name = names[i];
    step.lane = i;
    step.inputs = {numbers + i, 1};
    step.outputs = {numbers + i + 1, 1};
    (i == 0 ? step.extras.write().signals : step.extras.write().waits) = {0};
    p->steps.push_back(step);
    facts_of.push_back(std::make_shared<const KernelFacts>());
    p->scratch.push_back(kNoId);
  }
  p->facts = std::make_shared<const std::vector<std::shared_ptr<const KernelFacts>>>(std::move(facts_of));
  p->plan_values = std::make_shared<const std::vector<PlanValue>>(std::move(values));
  p->plan = *plan(p->problem(), Effort::load);
  return p;
}

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

Json only(const Json& events, const char* key, const char* value) {
  Json found = Json::array();
  for (const Json& e : events)
    if (e.contains(key) && e[key] == value) found.push_back(e);
  return found;
}

TEST(Trace, LanesWaitAndArrowsShowForWhat) {
  const auto p = two_lanes();
  TraceRecorder recorder([] { return TraceRecorder::Bytes{{"planned", 3}, {"retained", 7}}; });
  recorder.begin_run();
  const int64_t t = now();
  recorder.on_step({.program = p.get(), .step = 0, .begin_ns = t + 1000, .end_ns = t + 3000});
  recorder.on_step({.program = p.get(), .step = 1, .begin_ns = t + 5000, .end_ns = t + 6000});
  recorder.end_run();
  const Json trace = Json::parse(recorder.take("two lanes"));
  const Json& events = trace["traceEvents"];

  const Json steps = only(events, "cat", "step"), waits = only(events, "cat", "wait");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_NE(steps[0]["tid"], steps[1]["tid"]);
  EXPECT_EQ(steps[0]["dur"], 2.0);
  EXPECT_EQ(steps[1]["args"]["inputs"], Json({"f32[64]"}));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0]["tid"], steps[1]["tid"]);
  EXPECT_EQ(waits[0]["args"]["for"], Json({"a (Relu)"}));
  EXPECT_NEAR(waits[0]["ts"].get<double>() + waits[0]["dur"].get<double>(), steps[1]["ts"].get<double>(), 1e-6);
  const Json from = only(events, "ph", "s"), to = only(events, "ph", "f");
  ASSERT_EQ(from.size(), 1u);
  ASSERT_EQ(to.size(), 1u);
  EXPECT_EQ(from[0]["id"], to[0]["id"]);
  EXPECT_EQ(from[0]["tid"], steps[0]["tid"]);
  EXPECT_EQ(to[0]["tid"], steps[1]["tid"]);
  EXPECT_EQ(to[0]["ts"], steps[1]["ts"]);

  std::vector<int64_t> planned;
  std::vector<Json> memory;
  for (const Json& e : only(events, "ph", "C")) {
    if (e["name"] == "memory") {
      memory.push_back(e["args"]);
    } else {
      planned.push_back(e["args"]["bytes"]);
    }
  }
  EXPECT_THAT(planned, ElementsAre(256, 256, 0));
  EXPECT_THAT(memory, ElementsAre(Json{{"planned", 3}, {"retained", 7}}, Json{{"planned", 3}, {"retained", 7}}));
  EXPECT_EQ(Json::parse(recorder.take("empty"))["traceEvents"].size(), 3u);  // names of the process and a row
}

TEST(Trace, BodiesStandInTheLaneOfTheirStep) {
  const auto p = two_lanes();
  TraceRecorder recorder;
  recorder.begin_run();
  const int64_t t = now();
  recorder.on_step({.program = p.get(), .step = 0, .depth = 1, .begin_ns = t + 1100, .end_ns = t + 1200});
  recorder.on_step({.program = p.get(), .step = 1, .depth = 1, .begin_ns = t + 1150, .end_ns = t + 1300});
  recorder.on_step({.program = p.get(), .step = 1, .begin_ns = t + 1000, .end_ns = t + 2000});
  recorder.end_run();
  const Json events = Json::parse(recorder.take("bodies"))["traceEvents"];
  const Json inner = only(events, "cat", "body"), outer = only(events, "cat", "step");
  ASSERT_EQ(inner.size(), 2u);
  EXPECT_EQ(inner[0]["tid"], outer[0]["tid"]);
  EXPECT_NE(inner[1]["tid"], outer[0]["tid"]);  // it overlaps with its neighbour: a row of its own
}

}  // namespace
}  // namespace forethought
