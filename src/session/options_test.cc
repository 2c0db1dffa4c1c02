// What a session refuses of its options and of the environment, and that it says so as an error of the caller.
#include "session/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "base/cpu.h"
#include "base/knobs.h"
#include "graph/text.h"
#include "session/session.h"
#include "session/weights_options.h"

namespace forethought {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Status load(const SessionOptions& options) {
  auto graph = graph_from_text("graph(%x: f32[N,4]) { %y = Relu(%x) return %y }");
  EXPECT_TRUE(graph.ok());
  return Session::from_graph(std::move(*graph), options).status();
}

// Sets a variable of the environment as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Options, WhatCannotBeIsToldAsAnErrorOfTheCaller) {
  using O = SessionOptions;
  const struct {
    std::function<void(O&)> change;
    const char* part;
  } rows[] = {
      {[](O& o) { o.intra_op_threads = -1; }, "threads of a run is -1; it is to be from 0 to 1024"},
      {[](O& o) { o.intra_op_threads = kMostThreads + 1; }, "1025"},
      {[](O& o) { o.lanes = -1; }, "the number of lanes is -1; it is to be from 0 to 64"},
      {[](O& o) { o.lanes = kMostLanes + 1; }, "65"},
      {[](O& o) { o.plan_cache_capacity = -7; }, "shapes seen before is -7; it is to be from 1 to"},
      {[](O& o) { o.plan_cache_capacity = 0; }, "from 1 to"},
      {[](O& o) { o.optimization_level = static_cast<OptimizationLevel>(7); }, "level is 7; it is to be 0 (disabled)"},
      {[](O& o) { o.plan = static_cast<PlanMode>(9); }, "the plan mode is 9"},
      {[](O& o) { o.memory_limit = -1; }, "the memory limit is -1 bytes; 0 stands for none"},
      {[](O& o) { o.retention.side = -2; }, "side arena cannot keep -2 bytes"},
      {[](O& o) { o.idle_trim_ms = -3; }, "-3 ms"},
      {[](O& o) { o.free_dimensions["N"] = -4; }, "'N' is bound to -4; a dim is at least 0"},
      {[](O& o) { o.max_dimensions["N"] = 0; }, "the bound of 'N' is 0; it is at least 1"},
      {[](O& o) { o.max_dimensions["Q"] = 5; }, "no input has a dim 'Q'"},
      {[](O& o) { o.max_dimensions["N"] = int64_t{1} << 60; }, "plan for the largest shapes"},
      {[](O& o) { o.free_dimensions["N"] = o.max_dimensions["N"] = 5; }, "give one of the two"},
      {[](O& o) { o.optimized_model_path = std::string("a\0b", 3); }, "'a\\x00b' holds a byte of 0"},
      {[](O& o) { o.external_data_folder = std::string("a\0b", 3); }, "the folder of external data"},
      {[](O& o) { o.optimized_model_path = "/nowhere/at/all.onnx"; }, "save the optimised model"},
  };
  for (const auto& row : rows) {
    SessionOptions o;
    row.change(o);
    const Status refused = load(o);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(row.part));
    EXPECT_TRUE(is_wrong_option(refused)) << refused;
  }
  EXPECT_TRUE(load({}).ok());
  EXPECT_FALSE(is_wrong_option(Session::load("/nowhere/at/all.onnx").status()));
}

TEST(Options, APathWithAByteOfZeroIsNoShorterPath) {
  const Status refused = Session::load(std::string("/etc/hosts\0.onnx", 16)).status();
  EXPECT_TRUE(is_wrong_option(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the path of the model '/etc/hosts\\x00.onnx' holds a byte of 0"));
}

TEST(Knobs, NonsenseIsAnErrorOfEverySessionAndNamesWhatThereIs) {
  const struct {
    const char *variable, *value, *part;
  } rows[] = {
      {"FORETHOUGHT_ISA", "sse9", "set it to one of scalar, avx2, avx512, or unset it for its default"},
      {"FORETHOUGHT_LOG", "loud", "set it to one of verbose, info, warning, error, fatal, or unset it for warning"},
      {"FORETHOUGHT_PLAN", "Packed", "one of packed, exact, slots, off"},
      {"FORETHOUGHT_VALIDATE", "2", "one of 1, on,"},
      {"FORETHOUGHT_THREADS", "many", "a whole number from 0 to 1024, or unset it for 0"},
      {"FORETHOUGHT_THREADS", "-1", "from 0 to 1024"},
      {"FORETHOUGHT_THREADS", "2 ", "from 0 to 1024"},
      {"FORETHOUGHT_THREADS", "99999999999999999999", "from 0 to 1024"},
      {"FORETHOUGHT_LANES", "two", "from 0 to 64"},
      {"FORETHOUGHT_LANES", "65", "from 0 to 64"},
      {"FORETHOUGHT_MEMORY_LIMIT", "lots", "'lots' is no size of memory"},
      {"FORETHOUGHT_DEVICE_MEMORY_LIMIT", "-5", "'-5' is no size of memory"},
      {"FORETHOUGHT_DEVICE_MEMORY_LIMIT", "9999999999T", "more memory than any machine has"},
  };
  for (const auto& row : rows) {
    const Variable set(row.variable, row.value);
    const Status refused = load({});
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(row.variable), HasSubstr(row.value), HasSubstr(row.part)));
    EXPECT_TRUE(is_wrong_option(refused)) << refused;
  }
}

TEST(Knobs, WhatTheyTakeIsWhatSessionsTake) {
  for (const auto& [variable, value] :
       {std::pair{"FORETHOUGHT_THREADS", "2"}, std::pair{"FORETHOUGHT_LANES", "64"},
        std::pair{"FORETHOUGHT_PLAN", "off"}, std::pair{"FORETHOUGHT_PLAN", ""}, std::pair{"FORETHOUGHT_ISA", "scalar"},
        std::pair{"FORETHOUGHT_VALIDATE", "off"}}) {
    const Variable set(variable, value);
    EXPECT_TRUE(load({}).ok()) << variable << "=" << value;
  }
  EXPECT_TRUE(check_knob(Knob::kThreads, std::to_string(kMostThreads)).ok());
  EXPECT_FALSE(check_knob(Knob::kThreads, std::to_string(kMostThreads + 1)).ok());
  EXPECT_TRUE(check_knob(Knob::kLanes, std::to_string(kMostLanes)).ok());
  EXPECT_FALSE(check_knob(Knob::kLanes, std::to_string(kMostLanes + 1)).ok());
  for (const KnobInfo& k : knobs()) {
    if (!*k.default_value) continue;
    EXPECT_TRUE(check_knob(static_cast<Knob>(&k - knobs().data()), k.default_value).ok()) << k.variable;
  }
}

TEST(Knobs, ATierThatTheMachineLacksIsAnError) {
  if (detected_isa() == Isa::avx512) GTEST_SKIP() << "this machine has them all";
  const Variable set("FORETHOUGHT_ISA", "avx512");
  EXPECT_THAT(std::string(load({}).message()), HasSubstr("this machine lacks; set it to"));
}

TEST(Options, EntriesThatAreNearlyOnesOfOurs) {
  for (const auto& [key, meant] :
       std::vector<std::pair<const char*, const char*>>{{"session.weights", ""},
                                                        {"session.disable_prepacking", ""},
                                                        {"session.packed_weights_path", ""},
                                                        {"session.weigths", "session.weights"},
                                                        {"Session.Weights", "session.weights"},
                                                        {"session.disable_prepack", "session.disable_prepacking"},
                                                        {"session.packed_weight_path", "session.packed_weights_path"},
                                                        // Of onnxruntime, which programs may go on to give.
                                                        {"session.use_env_allocators", ""},
                                                        {"session.load_model_format", ""},
                                                        {"session.set_denormal_as_zero", ""},
                                                        {"session.disable_quant_qdq", ""},
                                                        {"session.disable_double_qdq_remover", ""},
                                                        {"session.disable_aot_function_inlining", ""},
                                                        {"session.enable_gelu_approximation", ""},
                                                        {"session.use_device_allocator_for_initializers", ""},
                                                        {"session.inter_op.allow_spinning", ""},
                                                        {"session.intra_op.allow_spinning", ""},
                                                        {"session.intra_op_thread_affinities", ""},
                                                        {"session.dynamic_block_base", ""},
                                                        {"session.force_spinning_stop", ""},
                                                        {"session.disable_cpu_ep_fallback", ""},
                                                        {"session.strict_shape_type_inference", ""},
                                                        {"session.save_external_prepacked_constant_initializers", ""},
                                                        {"session.model_external_initializers_file_folder_path", ""},
                                                        {"session.qdqisint8allowed", ""},
                                                        {"optimization.enable_gelu_approximation", ""},
                                                        {"ep.context_enable", ""},
                                                        {"", ""}})
    EXPECT_EQ(entry_meant_by(key), meant) << key;
}

}  // namespace
}  // namespace forethought
