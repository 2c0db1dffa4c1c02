#include "session/session_testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "exec/shadow.h"
#include "graph/text.h"

namespace forethought {

std::unique_ptr<Session> session_of(std::string_view text, const SessionOptions& options) {
  auto graph = graph_from_text(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return nullptr;
  auto session = Session::from_graph(std::move(*graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? std::move(*session) : nullptr;
}

namespace {

void expect_same(const Value& got, const Value& want, double tolerance, const std::string& where) {
  ASSERT_EQ(got.is_none(), want.is_none()) << where;
  if (!got.is_tensor()) return;
  const Tensor& a = got.tensor();
  const Tensor& b = want.tensor();
  ASSERT_EQ(a.dtype, b.dtype) << where;
  ASSERT_EQ(to_string(a.dims), to_string(b.dims)) << where;
  if (a.dtype == DType::kString) {
    for (int64_t i = 0; i < a.elements(); ++i) ASSERT_EQ(a.strings()[i], b.strings()[i]) << where;
  } else if (tolerance == 0 || a.dtype != DType::kFloat) {
    ASSERT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())), 0) << where;
  } else {
    for (int64_t i = 0; i < a.elements(); ++i) {
      const float x = a.as<float>()[i], y = b.as<float>()[i];
      if (std::isnan(x) && std::isnan(y)) continue;
      ASSERT_LE(std::fabs(x - y), tolerance * (1 + std::fabs(y))) << where << " element " << i;
    }
  }
}

}  // namespace

std::vector<SessionOptions> every_option() {
  std::vector<SessionOptions> all;
  for (OptimizationLevel level :
       {OptimizationLevel::disabled, OptimizationLevel::basic, OptimizationLevel::extended, OptimizationLevel::all})
    for (PlanMode plan : {PlanMode::packed, PlanMode::slots, PlanMode::off})
      for (int threads : {1, 2}) {
        SessionOptions o;
        o.optimization_level = level;
        o.plan = plan;
        o.intra_op_threads = threads;
        o.validate_plans = true;
        all.push_back(o);
      }
  return all;
}

std::string to_string(const SessionOptions& o) {
  return absl::StrCat("level ", static_cast<int>(o.optimization_level), " plan ", std::string(name(o.plan)),
                      " threads ", o.intra_op_threads);
}

std::vector<Value> run_everywhere(const SessionMaker& make, const std::vector<Value>& inputs, double tolerance) {
  std::vector<Value> first, of_level;
  OptimizationLevel level{};
  for (const SessionOptions& o : every_option()) {
    auto session = make(o);
    EXPECT_TRUE(session.ok()) << to_string(o) << ": " << session.status();
    if (!session.ok()) return {};
    for (int round = 0; round < 4; ++round) {
      ShadowSink shadow(round == 2 ? std::byte{0xff} : std::byte{0x5a});
      RunOptions options;
      if (round >= 2) options.sink = &shadow;
      std::vector<Value> outputs((*session)->outputs().size());
      const Status s = (*session)->run_ordered(inputs, outputs, options);
      const std::string where = absl::StrCat(to_string(o), round >= 2 ? " watched" : "", " run ", round);
      EXPECT_TRUE(s.ok()) << where << ": " << s;
      EXPECT_TRUE(shadow.faults().empty()) << where << ": " << shadow.faults().front();
      if (!s.ok()) return {};
      if (first.empty()) first = outputs;
      if (of_level.empty() || o.optimization_level != level) of_level = outputs;
      level = o.optimization_level;
      for (size_t i = 0; i < outputs.size(); ++i) {
        expect_same(outputs[i], of_level[i], 0, where);
        expect_same(outputs[i], first[i], tolerance, where);
      }
    }
  }
  return first;
}

std::vector<Value> run_everywhere(std::string_view text, const std::vector<Value>& inputs, double tolerance) {
  return run_everywhere(
      [&](const SessionOptions& o) -> StatusOr<std::unique_ptr<Session>> {
        ASSIGN_OR_RETURN(auto graph, graph_from_text(text));
        return Session::from_graph(std::move(graph), o);
      },
      inputs, tolerance);
}

int64_t live_bytes(const Session& session) {
  int64_t live = 0;
  const MemoryStatistics statistics = session.memory_statistics();
  for (const MemoryUse& use : statistics.roles) live += use.live;
  return live;
}

int64_t least_of(const Status& refused) {
  const std::string message(refused.message());
  const size_t text = message.find("allow at least "), open = message.find('(', text);
  if (text == message.npos || open == message.npos) return -1;
  char* end = nullptr;
  const long long bytes = std::strtoll(message.c_str() + open + 1, &end, 10);
  return std::string_view(end).starts_with(" bytes)") ? bytes : -1;
}

std::vector<float> floats(const Value& v) {
  const Tensor& t = v.tensor();
  return std::vector<float>(t.as<float>(), t.as<float>() + t.elements());
}

std::vector<int64_t> int64s(const Value& v) {
  const Tensor& t = v.tensor();
  return std::vector<int64_t>(t.as<int64_t>(), t.as<int64_t>() + t.elements());
}

Dims dims_of(const Value& v) { return v.tensor().dims; }

}  // namespace forethought
