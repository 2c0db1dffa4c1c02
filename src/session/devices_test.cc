// Models split between the CPU and simulated devices: the same bits as on the CPU alone, with the fewest copies and
// waits, in one lane and two, with delays, errors and cancels.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "device/lanes.h"
#include "exec/program_builder_for_tests.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"

namespace forethought {
namespace {

using Claims = std::function<bool(const Graph&, const GraphNode&)>;

std::shared_ptr<SimDevice> sim(const SimDeviceOptions& options = {}) { return SimDevice::make(options).value(); }

Claims named(std::vector<std::string> names) {
  return [names = std::move(names)](const Graph&, const GraphNode& n) {
    return std::ranges::find(names, n.name) != names.end();
  };
}
bool everything(const Graph&, const GraphNode&) { return true; }

SessionOptions plain() {
  SessionOptions o;
  o.optimization_level = OptimizationLevel::disabled;  // the same kernels on both sides
  o.validate_plans = true;
  return o;
}

Tensor ramp(std::initializer_list<int64_t> dims, float from = -1.5f, float step = 0.25f) {
  Tensor t = make_tensor(DType::kFloat, Dims(dims)).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = from + step * static_cast<float>(i);
  return t;
}

std::string bytes_of(const Value& v) {
  const Tensor& t = v.tensor();
  return {t.as<char>(), static_cast<size_t>(t.bytes())};
}

std::vector<std::string> run_bytes(Session& s, const std::vector<Value>& in) {
  std::vector<Value> out(s.outputs().size());
  const Status status = s.run_ordered(in, out);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::string> bytes;
  for (const Value& v : out) bytes.push_back(v.is_tensor() ? bytes_of(v) : "");
  return bytes;
}

std::shared_ptr<const CompiledProgram> program_of(const Session& s, const std::vector<Dims>& dims) {
  auto p = s.plan_for(dims);
  EXPECT_TRUE(p.ok()) << p.status();
  return p.ok() ? *p : nullptr;
}

// Memory of the device is all back once no session has any.
class Devices : public testing::Test {
 protected:
  std::shared_ptr<SimDevice> device(const SimDeviceOptions& options = {}) {
    devices_.push_back(sim(options));
    return devices_.back();
  }
  void TearDown() override {
    for (const auto& d : devices_) {
      EXPECT_EQ(d->allocator().statistics().live, 0);
      EXPECT_EQ(d->counts().streams, 0);
      EXPECT_EQ(d->counts().kept_buffers, 0);
      EXPECT_EQ(d->counts().freed_in_use, 0);
    }
  }
  std::vector<std::shared_ptr<SimDevice>> devices_;
};

constexpr char kFive[] = R"(graph(%x: f32[4]) {
  %a = Neg(%x) "a" %b = Abs(%x) "b" %c = Relu(%x) "c" %d = Sigmoid(%x) "d" %e = Tanh(%x) "e"
  return %a, %b, %c, %d, %e })";

TEST_F(Devices, Check32OneCopyForEachValueAndTargetWithFiveConsumers) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  auto s = session_of(kFive, with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->report().partition.copies, 1 + 5);  // the input once, each output once
  const auto p = program_of(*s, {{4}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->device_copies, 6);
  EXPECT_EQ(p->copied_bytes, 6 * 16);
  auto cpu = session_of(kFive, plain());
  ASSERT_TRUE(cpu);
  const std::vector<Value> in = {ramp({4})};
  EXPECT_EQ(run_bytes(*s, in), run_bytes(*cpu, in));
  EXPECT_EQ(d->counts().copies, 6);
  EXPECT_EQ(d->counts().copied_bytes, 6 * 16);
  EXPECT_EQ(d->counts().launches, 5);
  EXPECT_EQ(program_of(*cpu, {{4}})->device_copies, 0);
  // One value, five consumers on the host: one copy back.
  SimProviderScope one("OneProvider", d, named({"a"}));
  auto back = session_of(R"(graph(%x: f32[4]) {
    %a = Neg(%x) "a" %b = Abs(%a) %c = Relu(%a) %e = Tanh(%a) %f = Add(%a, %b) %g = Mul(%a, %a)
    return %a, %b, %c, %e, %f, %g })",
                         with_provider("OneProvider", plain()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->report().partition.copies, 2);
}

TEST_F(Devices, A35_ShapeArithmeticStaysOnTheHostAndIsNotCopied) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  constexpr char kText[] = R"(graph(%x: f32[N,6]) {
    %r = Relu(%x) "r" %s = Shape(%r) "s" %n = Gather(%s, 0) "n" %u = Unsqueeze(%n, [0]) "u"
    %k = Concat<axis=0>(%u, [2, 3]) "k" %q = Reshape(%r, %k) "q" %y = Neg(%q) "y" return %y })";
  auto s = session_of(kText, with_provider("SimProvider", plain()));
  auto cpu = session_of(kText, plain());
  ASSERT_TRUE(s && cpu);
  std::map<std::string, NodePlacement> at;
  for (const NodePlacement& p : s->report().partition.placements) at[p.node] = p;
  for (const char* n : {"r", "q", "y"}) EXPECT_EQ(at[n].provider, "SimProvider") << n;
  for (const char* n : {"s", "n", "u", "k"}) {
    EXPECT_EQ(at[n].provider, "CPUExecutionProvider") << n;
    ASSERT_EQ(at[n].refused.size(), 1u) << n;
    EXPECT_EQ(at[n].refused[0].second, "shape arithmetic stays on the host");
  }
  EXPECT_EQ(s->report().partition.copies, 2) << "the input and the output, no shape";
  for (int64_t n : {1, 5, 3}) {
    const std::vector<Value> in = {ramp({n, 6})};
    EXPECT_EQ(run_bytes(*s, in), run_bytes(*cpu, in));
  }
  EXPECT_EQ(d->counts().launches, 9);
  EXPECT_EQ(d->counts().host_inputs, 3) << "the shape that Reshape reads";
}

TEST_F(Devices, SizesThatOnlyTheDataTellsStayOnTheHostWithTheReason) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  constexpr char kText[] = R"(graph(%x: f32[6]) {
    %r = Relu(%x) "r" %z = NonZero(%r) "z" %y = Neg(%z) "y" return %y })";
  auto s = session_of(kText, with_provider("SimProvider", plain()));
  auto cpu = session_of(kText, plain());
  ASSERT_TRUE(s && cpu);
  std::map<std::string, NodePlacement> at;
  for (const NodePlacement& p : s->report().partition.placements) at[p.node] = p;
  EXPECT_EQ(at["r"].provider, "SimProvider");
  for (const char* n : {"z", "y"}) {
    EXPECT_EQ(at[n].provider, "CPUExecutionProvider") << n;
    EXPECT_NE(at[n].refused[0].second.find("is known only at run"), std::string::npos);
  }
  const std::vector<Value> in = {ramp({6})};
  EXPECT_EQ(run_bytes(*s, in), run_bytes(*cpu, in));
}

// Two branches that meet: with two lanes they run side by side.
constexpr char kBranches[] = R"(graph(%x: f32[8,16], %w: f32[16,8]) {
  const %k: f32[1,16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
  %s = Mul(%x, %k) "s" %a1 = Neg(%s) "a1" %a2 = Sigmoid(%a1) "a2" %b1 = Tanh(%s) "b1" %b2 = Mul(%b1, %s) "b2"
  %h = Add(%a2, %b2) "h" %m = MatMul(%h, %w) "m" %p = Softmax<axis=-1>(%m) "p" %t = Add(%p, 0.5) "t" %y = Neg(%t) "y"
  return %y, %b2 })";

TEST_F(Devices, SplitModelsGiveTheSameBitsInOneLaneAndTwoWithDelays) {
  const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8}, 0.5f, -0.01f)};
  auto cpu = session_of(kBranches, plain());
  ASSERT_TRUE(cpu);
  const auto want = run_bytes(*cpu, in);
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"s", "a1", "a2", "b1", "b2", "h", "m", "p", "t", "y"},
        {"a1", "b1"},
        {"s", "a2", "h", "p", "y"},
        {"b2"},
        {"m", "p"}}) {
    for (int lanes : {1, 2}) {
      for (int delay : {0, 300}) {
        auto d = device({.lanes = lanes, .max_delay_us = delay, .seed = 7});
        SimProviderScope provider("SimProvider", d, named(names));
        auto s = session_of(kBranches, with_provider("SimProvider", plain()));
        ASSERT_TRUE(s);
        for (int round = 0; round < 4; ++round) EXPECT_EQ(run_bytes(*s, in), want) << names.size() << " " << lanes;
        EXPECT_EQ(d->counts().launches, 4 * static_cast<int64_t>(names.size()));
        EXPECT_EQ(d->counts().host_inputs, 0);
      }
    }
  }
}

TEST_F(Devices, ConstantsGoToTheDeviceOnceAtLoad) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  auto s = session_of(kBranches, with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->report().partition.constants, 2);
  EXPECT_EQ(s->report().partition.constant_bytes, 16 * 4 + 4);
  EXPECT_EQ(d->counts().synchronous_copies, 2);
  const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})};
  run_bytes(*s, in);
  run_bytes(*s, in);
  EXPECT_EQ(d->counts().synchronous_copies, 2);
  EXPECT_EQ(d->counts().copies, 2 * 4);
}

TEST_F(Devices, A44_WaitsThatOthersImplyAreLeftOutAndCounted) {
  auto d = device({.lanes = 2});
  SimProviderScope provider("SimProvider", d, everything);
  auto s = session_of(kBranches, with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  const auto p = program_of(*s, {{8, 16}, {16, 8}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->lanes, 3);
  EXPECT_LT(p->waits.waits, p->waits.edges);
  EXPECT_GT(p->waits.waits, 0);
  EXPECT_EQ(p->plan.devices.size(), 1u);
  EXPECT_GT(p->plan.devices[0].peak, 0);
  EXPECT_LE(p->plan.devices[0].peak, p->plan.devices[0].naive);
  EXPECT_EQ(p->plan.peak, 0) << "the host keeps nothing";
}

TEST_F(Devices, RepeatedRunsTakeNoNewMemoryOnTheDevice) {
  auto d = device({.lanes = 2});
  SimProviderScope provider("SimProvider", d, everything);
  auto s = session_of(kBranches, with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})};
  run_bytes(*s, in);
  const int64_t before = d->allocator().statistics().allocations;
  for (int i = 0; i < 5; ++i) run_bytes(*s, in);
  EXPECT_EQ(d->allocator().statistics().allocations, before);
}

// --- Inputs and outputs on the device.

Tensor on_device(const std::shared_ptr<SimDevice>& d, const Tensor& from) {
  return copy_to_device(from, DeviceUse(d), MemoryRole::leased, "a test").value();
}

TEST_F(Devices, E17_BoundInputsAndOutputsStayOnTheDevice) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  auto s = session_of("graph(%x: f32[4], %w: f32[4]) { %a = Mul(%x, %w) %y = Neg(%a) return %y }",
                      with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  const Tensor x = ramp({4}), w = ramp({4}, 2);
  const auto want = run_bytes(*s, {x, w});
  EXPECT_EQ(d->counts().copies, 3);
  EXPECT_EQ(s->input_device(0), d->device());
  EXPECT_EQ(s->output_device(0), d->device());
  const Tensor dx = on_device(d, x), dw = on_device(d, w);
  // Memory of the caller's, and memory that the session makes there.
  Tensor asked;
  asked.dtype = DType::kFloat;
  asked.dims = {4};
  asked.device = d->device();
  for (Tensor target :
       {make_on_device(DType::kFloat, {}, Dims{4}, DeviceUse(d), MemoryRole::leased, "y").value(), asked}) {
    const SimDeviceCounts before = d->counts();
    std::vector<Value> in = {dx, dw}, out = {target};
    const Status status = s->run_ordered(in, out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(d->counts().copies, before.copies) << "nothing moves";
    EXPECT_EQ(d->counts().synchronous_copies, before.synchronous_copies);
    ASSERT_TRUE(out[0].is_tensor());
    EXPECT_EQ(out[0].tensor().device, d->device());
    if (target.data) {
      EXPECT_EQ(out[0].tensor().data, target.data);
    }
    EXPECT_EQ(bytes_of(copy_to_host(out[0].tensor(), s->devices()).value()), want[0]);
    // The result of one run is an input of the next, and never leaves.
    std::vector<Value> next = {out[0], dw}, last(1);
    ASSERT_TRUE(s->run_ordered(next, last).ok());
    EXPECT_EQ(d->counts().copies, before.copies + 1);
  }
  // One of both bound.
  std::vector<Value> in = {x, dw}, out(1);
  ASSERT_TRUE(s->run_ordered(in, out).ok());
  EXPECT_EQ(bytes_of(out[0]), want[0]);
}

TEST_F(Devices, E17_WhatTheHostReadsOrMakesIsCopiedAroundTheRun) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, named({"a"}));
  constexpr char kText[] = R"(graph(%x: f32[4], %w: f32[4]) {
    %a = Neg(%x) "a" %b = Abs(%x) "b" %c = Add(%a, %w) "c" return %a, %b, %c })";
  auto s = session_of(kText, with_provider("SimProvider", plain()));
  auto cpu = session_of(kText, plain());
  ASSERT_TRUE(s && cpu);
  const Tensor x = ramp({4}), w = ramp({4}, 2);
  const auto want = run_bytes(*cpu, {x, w});
  EXPECT_TRUE(s->input_device(0).is_host()) << "the host reads it too";
  EXPECT_TRUE(s->output_device(0).is_host()) << "the host reads it too";
  std::vector<Value> in = {on_device(d, x), on_device(d, w)};
  std::vector<Value> out;
  for (int i = 0; i < 3; ++i)
    out.emplace_back(make_on_device(DType::kFloat, {}, Dims{4}, DeviceUse(d), MemoryRole::leased, "out").value());
  const Status status = s->run_ordered(in, out);
  ASSERT_TRUE(status.ok()) << status;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bytes_of(copy_to_host(out[i].tensor(), s->devices()).value()), want[i]) << i;
}

TEST_F(Devices, AnOutputOnTheDeviceOutlivesTheSessionAndKeepsTheDevice) {
  std::vector<Value> out(1);
  std::weak_ptr<SimDevice> watch;
  {
    auto d = sim();
    watch = d;
    SimProviderScope provider("SimProvider", d, everything);
    auto s = session_of("graph(%x: f32[4]) { %y = Neg(%x) return %y }", with_provider("SimProvider", plain()));
    ASSERT_TRUE(s);
    Tensor asked;
    asked.dtype = DType::kFloat;
    asked.dims = {4};
    asked.device = d->device();
    out[0] = asked;
    const std::vector<Value> in = {ramp({4})};
    ASSERT_TRUE(s->run_ordered(in, out).ok());
  }
  const auto kept = watch.lock();
  ASSERT_TRUE(kept);
  DeviceSet set;
  set.add(DeviceUse(kept));
  const Tensor y = copy_to_host(out[0].tensor(), set).value();
  EXPECT_EQ(y.as<float>()[0], 1.5f);
  EXPECT_EQ(kept->allocator().statistics().live_blocks, 1);
  out.clear();
  EXPECT_EQ(kept->allocator().statistics().live_blocks, 0);
}

TEST_F(Devices, ADeviceThatTheSessionDoesNotHaveIsAnError) {
  auto d = device({.index = 5});
  auto s = session_of("graph(%x: f32[4]) { %y = Neg(%x) return %y }", plain());
  ASSERT_TRUE(s);
  std::vector<Value> in = {on_device(d, ramp({4}))}, out(1);
  const Status status = s->run_ordered(in, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("input 'x' lies on "), std::string::npos) << status;
  EXPECT_NE(status.message().find("which no provider of this session has"), std::string::npos) << status;
}

// Bound to outputs that the device makes ('y') and that the host makes ('z', copied there), and to inputs.
TEST_F(Devices, MemoryOfTheDeviceThatCannotBeSaysWhatToDo) {
  auto d = device({.index = 3});
  SimProviderScope provider("SimProvider", d, named({"on_device"}));
  auto s = session_of(R"(graph(%x: f32[4], %w: f32[4]) {
    %y = Neg(%x) "on_device" %z = Abs(%w) "on_host" return %y, %z })",
                      with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  ASSERT_EQ(s->output_device(0), d->device());
  ASSERT_TRUE(s->output_device(1).is_host());
  const auto there = [&](DType dtype, const Dims& dims) {
    return make_on_device(dtype, {}, dims, DeviceUse(d), MemoryRole::leased, "memory").value();
  };
  const auto asked = [&](DType dtype, const Dims& dims) {
    Tensor t;
    t.dtype = dtype, t.dims = dims, t.device = d->device();
    return t;
  };
  const auto moved = [](Tensor t, int64_t bytes) {
    t.data = static_cast<std::byte*>(t.data) + bytes;
    return t;
  };
  const Tensor x = on_device(d, ramp({4})), w = on_device(d, ramp({4}, 2)), large = there(DType::kFloat, {16});
  Tensor part = large;
  part.dims = {4};
  const std::string of_form = ": give memory of that type and shape, or none";
  for (const size_t o : {0, 1}) {  // the output that gets it; the other one gets none
    const struct {
      const char* what;
      Value in[2];
      Value out[2];
      std::string says;
    } rows[] = {
        {"another type", {x, w}, {there(DType::kInt32, {4}), {}}, of_form},
        {"too small", {x, w}, {there(DType::kFloat, {3}), {}}, of_form},
        {"too large", {x, w}, {large, {}}, of_form},
        {"another shape of as many bytes", {x, w}, {there(DType::kFloat, {2, 2}), {}}, of_form},
        {"askew", {x, w}, {moved(part, 2), {}}, "lies at an address that 4 does not divide"},
        {"twice", {x, w}, {part, part}, "were given the same memory"},
        {"twice in part", {x, w}, {part, moved(part, 8)}, "were given the same memory"},
        {"that of an input", {x, w}, {x, {}}, "is that of input 'x'"},
        {"part of an input", {part, w}, {moved(part, 12), {}}, "is that of input 'x'"},
        {"that of another input", {x, w}, {w, {}}, "is that of input 'w'"},
        {"asked as another type", {x, w}, {asked(DType::kInt64, {4}), {}}, of_form},
        {"asked as another shape", {x, w}, {asked(DType::kFloat, {5}), {}}, of_form},
        {"asked as less than nothing", {x, w}, {asked(DType::kFloat, {-4}), {}}, "[-4]"},
        {"asked as more than 64 bits count", {x, w}, {asked(DType::kFloat, {1 << 30, 1 << 30, 16}), {}}, "1073741824"},
        {"asked as strings", {x, w}, {asked(DType::kString, {4}), {}}, "as str[4]: give a type"},
        {"an input of another type", {there(DType::kInt32, {4}), w}, {}, "input 'x' wants tensor(float)[4]"},
        {"an input of another shape", {x, large}, {}, "input 'w' wants tensor(float)[4]"},
        {"an input without memory", {asked(DType::kFloat, {4}), w}, {}, "what came has no memory"},
        {"an input of no shape", {x, asked(DType::kFloat, {-1})}, {}, "impossible shape [-1]"},
        {"an input of strings", {x, asked(DType::kString, {4})}, {}, "input 'w' wants tensor(float)[4]"},
    };
    for (const auto& row : rows) {
      std::vector<Value> in(std::begin(row.in), std::end(row.in)), out = {row.out[o], row.out[1 - o]};
      const int64_t live = d->allocator().statistics().live;
      const Status status = s->run_ordered(in, out);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.what << " for output " << o << ": " << status;
      EXPECT_NE(status.message().find(row.says), std::string::npos)
          << row.what << " for output " << o << ": " << status;
      EXPECT_EQ(d->allocator().statistics().live, live) << row.what;
    }
  }
  std::vector<Value> in = {x, w}, out = {part, moved(part, 16)};  // side by side in one block
  const Status status = s->run_ordered(in, out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(copy_to_host(out[0].tensor(), s->devices()).value().as<float>()[0], 1.5f);
  EXPECT_EQ(copy_to_host(out[1].tensor(), s->devices()).value().as<float>()[0], 2);
}

TEST_F(Devices, MemoryOfTheDeviceForWhatIsNoTensorOfThatSizeIsRefused) {
  auto d = device({.index = 3});
  SimProviderScope provider("SimProvider", d, named({"on_device"}));
  const Tensor x = ramp({6}, -1.25f);  // the last is 0
  const struct {
    const char* makes;
    DType dtype;
    Dims dims;
    const char* says;  // null: fits
  } rows[] = {
      {"NonZero(%a)", DType::kInt64, {1, 5}, nullptr},      {"NonZero(%a)", DType::kInt64, {1, 4}, "[1,5]"},
      {"NonZero(%a)", DType::kInt64, {5, 1}, "[1,5]"},      {"NonZero(%a)", DType::kDouble, {1, 5}, "i64"},
      {"SequenceConstruct(%x)", DType::kFloat, {6}, "'y'"}, {"Optional(%x)", DType::kFloat, {6}, "'y'"},
      {"Cast<to=8>(%x)", DType::kFloat, {6}, "'y'"},
  };
  for (const auto& row : rows) {
    auto s =
        session_of(absl::StrCat("graph(%x: f32[6]) { %a = Neg(%x) \"on_device\" %y = ", row.makes, " return %y, %a }"),
                   with_provider("SimProvider", plain()));
    ASSERT_TRUE(s);
    std::vector<Value> in = {x}, out(2);
    out[0] = make_on_device(row.dtype, {}, row.dims, DeviceUse(d), MemoryRole::leased, "memory").value();
    const Status status = s->run_ordered(in, out);
    if (!row.says) {
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(copy_to_host(out[0].tensor(), s->devices()).value().as<int64_t>()[4], 4);
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.makes << ": " << status;
    EXPECT_NE(status.message().find(row.says), std::string::npos) << row.makes << ": " << status;
  }
}

TEST_F(Devices, WhatADeviceMakesMayEnterAnObjectOfTheHost) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, named({"on_device"}));
  for (const char* made : {"SequenceConstruct(%a, %x)", "Optional(%a)", "SequenceConstruct(%a, %a)"}) {
    for (const PlanMode plan : {PlanMode::packed, PlanMode::off}) {
      const std::string text = absl::StrCat("graph(%x: f32[6]) { %a = Neg(%x) \"on_device\" %y = ", made,
                                            " %z = Abs(%a) \"on_device\" return %y, %z }");
      SessionOptions options = plain();
      options.plan = plan;
      auto s = session_of(text, with_provider("SimProvider", options));
      ASSERT_TRUE(s);
      const Tensor x = ramp({6});
      for (int i = 0; i < 2; ++i) {
        const std::vector<Value> in = {x};
        std::vector<Value> out(2);
        const Status status = s->run_ordered(in, out);
        ASSERT_TRUE(status.ok()) << made << ": " << status;
        const Tensor& a = out[0].sequence() ? out[0].sequence()->items[0].tensor() : out[0].tensor();
        EXPECT_EQ(a.as<float>()[0], 1.5f) << made;
        EXPECT_EQ(a.as<float>()[5], 0.25f) << made;
      }
    }
  }
}

// --- Two devices.

TEST_F(Devices, TwoDevicesExchangeValuesDirectlyOrThroughTheHost) {
  const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})};
  auto cpu = session_of(kBranches, plain());
  ASSERT_TRUE(cpu);
  const auto want = run_bytes(*cpu, in);
  int copies[2] = {};
  for (bool direct : {false, true}) {
    const SimDeviceOptions options{
        .lanes = 2, .max_delay_us = 100, .waits_for_other_devices = direct, .copies_from_other_devices = direct};
    SimDeviceOptions first = options, second = options;
    first.index = 1, second.index = 2;
    auto one = device(first), two = device(second);
    SimProviderScope provider_one("OneProvider", one, named({"s", "a1", "b1", "m", "t"}));
    SimProviderScope provider_two("TwoProvider", two, everything);
    auto s = session_of(kBranches, with_provider("OneProvider", with_provider("TwoProvider", plain())));
    ASSERT_TRUE(s);
    for (int round = 0; round < 3; ++round) EXPECT_EQ(run_bytes(*s, in), want) << direct;
    copies[direct] = s->report().partition.copies;
    EXPECT_EQ(one->counts().launches, 3 * 5);
    EXPECT_EQ(two->counts().launches, 3 * 5);
  }
  EXPECT_LT(copies[1], copies[0]);
}

// --- Errors and cancels.

TEST_F(Devices, AnErrorOfTheDeviceAtAnyPieceOfWorkEndsTheRunAndTheNextOneIsRight) {
  for (int lanes : {1, 2}) {
    auto d = device({.lanes = lanes, .max_delay_us = 50});
    SimProviderScope provider("SimProvider", d, named({"s", "a1", "a2", "b1", "b2", "m", "y"}));
    auto s = session_of(kBranches, with_provider("SimProvider", plain()));
    ASSERT_TRUE(s);
    const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})};
    const auto want = run_bytes(*s, in);
    const int64_t work = d->counts().copies + d->counts().launches;
    EXPECT_GT(work, 10);
    for (int64_t n = 1; n <= work; ++n) {
      d->fail_work(n);
      std::vector<Value> out(2);
      const Status status = s->run_ordered(in, out);
      ASSERT_FALSE(status.ok()) << n;
      EXPECT_NE(status.message().find("failed as it was told to"), std::string::npos) << status;
      EXPECT_NE(status.message().find("node "), std::string::npos) << status;
      EXPECT_TRUE(out[0].is_none() && out[1].is_none());
      EXPECT_EQ(run_bytes(*s, in), want) << n;
    }
  }
}

TEST_F(Devices, AKernelThatFailsOnTheDeviceIsNamed) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  auto s = session_of(R"(graph(%x: f32[4,2], %i: i64[2]) {
    %a = Neg(%x) "a" %g = Gather(%a, %i) "rows" %y = Abs(%g) "y" return %y })",
                      with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  std::vector<Value> in = {ramp({4, 2}), tensor_of<int64_t>({2}, {0, 9})}, out(1);
  const Status status = s->run_ordered(in, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("node rows (Gather)"), std::string::npos) << status;
  in[1] = tensor_of<int64_t>({2}, {0, 3});
  EXPECT_TRUE(s->run_ordered(in, out).ok());
}

TEST_F(Devices, ARunIsCancelledAtAnyPieceOfWork) {
  for (int lanes : {1, 2}) {
    auto d = device({.lanes = lanes});
    SimProviderScope provider("SimProvider", d, named({"s", "a1", "a2", "b1", "b2", "m", "y"}));
    auto s = session_of(kBranches, with_provider("SimProvider", plain()));
    ASSERT_TRUE(s);
    const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})};
    const auto want = run_bytes(*s, in);
    const int64_t work = d->counts().copies + d->counts().launches;
    int64_t before = work, cancelled = 0;
    for (int64_t n = 1; n <= work; ++n) {
      RunOptions options;
      d->on_work([&](int64_t number) {
        if (number == before + n) options.cancel.cancel();
      });
      std::vector<Value> out(2);
      const Status status = s->run_ordered(in, out, options);
      d->on_work({});
      EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
      cancelled += !status.ok();
      EXPECT_EQ(run_bytes(*s, in), want) << n;
      before = d->counts().copies + d->counts().launches;
      // Work that was dropped while it was its turn has a number but is not counted as done.
      std::atomic<int64_t> last{0};
      d->on_work([&](int64_t number) { last = number; });
      run_bytes(*s, in);
      d->on_work({});
      before = last;
    }
    EXPECT_GE(cancelled, work - 4);
  }
}

TEST_F(Devices, ACancelIsHeardWhileTheDeviceStandsStill) {
  for (int lanes : {1, 2}) {
    auto d = device({.lanes = lanes});
    SimProviderScope provider("SimProvider", d, everything);
    auto s = session_of(kBranches, with_provider("SimProvider", plain()));
    ASSERT_TRUE(s);
    const std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})};
    const auto want = run_bytes(*s, in);
    for (int wait_ms : {0, 20}) {  // the second most likely hears it with all work queued
      d->pause();
      RunOptions options;
      std::vector<Value> out(2);
      Status status;
      std::thread run([&] { status = s->run_ordered(in, out, options); });
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      options.cancel.cancel();
      run.join();
      EXPECT_TRUE(absl::IsCancelled(status)) << status;
      d->resume();
      EXPECT_EQ(run_bytes(*s, in), want);
    }
  }
}

// Lane 0 waits in its queue for lane 1, whose kernel never begins: if each lane's work were dropped only when it is
// drained, the first would be waited for without end.
TEST_F(Devices, ACancelIsHeardByLanesThatWaitForEachOther) {
  auto d = device({.lanes = 2});
  const auto lanes = make_stream_lanes(DeviceUse(d));
  ProgramBuilder b;
  const int32_t x = b.input("x", DType::kFloat, {4});
  const int32_t one = b.slab(0, DType::kFloat, {4}), two = b.slab(64, DType::kFloat, {4});
  b.value(one).device = b.value(two).device = 0;
  ProgramStep& first = b.step("one (Add)", {x, x}, {one}, add_f32);
  first.lane = 1;
  first.extras.write().signals = {0};
  b.step("two (Add)", {one, one}, {two}, add_f32).extras.write().waits = {0};
  b.program().lanes = 2;
  b.program().notifications = 1;
  b.program().lane_device = {0, 0};
  b.program().device_slab_bytes = {128};
  TestExecutor e;
  ExecEnvironment environment{&e.pool, e.io.get(), e.side.get(), e.budget, {}, {lanes.get()}};
  Executor executor(environment);
  for (int round = 0; round < 3; ++round) {
    const int64_t waits = d->counts().event_waits;
    d->pause();
    const CancelFlag flag;
    Status status;
    std::thread run([&] {
      std::vector<Value> none;
      status = executor.run(b.done(), std::vector<Value>{ramp({4})}, none, {.cancel = flag.raw()});
    });
    while (d->counts().event_waits == waits) std::this_thread::yield();  // lane 0 is in its wait
    flag.cancel();
    run.join();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    d->resume();
    std::vector<Value> none;
    EXPECT_TRUE(executor.run(b.done(), std::vector<Value>{ramp({4})}, none).ok());
  }
}

TEST_F(Devices, MemoryThatTheDeviceDoesNotHaveIsAnErrorThatNamesWhoWantsIt) {
  auto d = device();
  SimProviderScope provider("SimProvider", d, everything);
  d->fail_allocation(1);
  auto graph = session_of("graph(%x: f32[4]) { %y = Neg(%x) return %y }", plain());
  ASSERT_TRUE(graph);
  auto s = session_of("graph(%x: f32[4]) { %y = Neg(%x) return %y }", with_provider("SimProvider", plain()));
  ASSERT_TRUE(s);
  std::vector<Value> in = {ramp({4})}, out(1);
  const Status status = s->run_ordered(in, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("execution slab"), std::string::npos) << status;
  EXPECT_TRUE(s->run_ordered(in, out).ok());
}

TEST_F(Devices, AStreamThatCannotBeMadeFailsOneRunOnly) {
  auto d = device({.lanes = 2});
  SimProviderScope provider("SimProvider", d, everything);
  for (int nth : {1, 2}) {
    auto s = session_of(kBranches, with_provider("SimProvider", plain()));
    ASSERT_TRUE(s);
    d->fail_stream(nth);
    std::vector<Value> in = {ramp({8, 16}), ramp({16, 8})}, out(2);
    const Status status = s->run_ordered(in, out);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("no more streams"), std::string::npos) << status;
    EXPECT_TRUE(s->run_ordered(in, out).ok()) << nth;
  }
}

TEST_F(Devices, ManyRunsAtOnceOnOneSession) {
  auto d = device({.lanes = 2, .max_delay_us = 50});
  SimProviderScope provider("SimProvider", d, named({"s", "a1", "a2", "b1", "m", "y"}));
  auto s = session_of(kBranches, with_provider("SimProvider", plain()));
  auto cpu = session_of(kBranches, plain());
  ASSERT_TRUE(s && cpu);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<Value> in = {ramp({8, 16}, static_cast<float>(t)), ramp({16, 8})};
      const auto want = run_bytes(*cpu, in);
      for (int i = 0; i < 15; ++i) wrong += run_bytes(*s, in) != want;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace forethought
