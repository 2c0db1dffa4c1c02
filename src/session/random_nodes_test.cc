// Every operator with random inputs, shapes and attributes, extreme ones among them: a status or an answer, and the
// same one with and without optimisation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "graph/schema/schema.h"
#include "graph/text.h"
#include "ops/op.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

constexpr int kRoundsPerOperator = 80;
constexpr int64_t kMemory = int64_t{64} << 20;
constexpr int64_t kPlanToRun = int64_t{1} << 20;

class Maker {
 public:
  explicit Maker(unsigned seed) : engine_(seed) {}
  bool chance(int percent) { return engine_() % 100 < static_cast<unsigned>(percent); }
  template <typename T, size_t N>
  T one_of(const T (&list)[N]) {
    return list[engine_() % N];
  }
  int64_t whole() {
    static const int64_t tame[] = {0, 1, 1, 1, 2, 2, 3, -1, -2};
    static const int64_t wild[] = {4, 7, -5, 100, int64_t{1} << 31, int64_t{1} << 40, INT64_MAX, INT64_MIN};
    return chance(94) ? one_of(tame) : one_of(wild);
  }
  float real() {
    static const float tame[] = {-1, 0, 0.5f, 1, 2, 3, -0.0f, 1.5f};
    static const float wild[] = {1e30f, -1e30f, std::numeric_limits<float>::infinity(),
                                 std::numeric_limits<float>::quiet_NaN(), 1e-40f};
    return chance(95) ? one_of(tame) : one_of(wild);
  }
  Dims shape() {
    static const int64_t sizes[] = {1, 1, 2, 2, 3, 4, 0};
    Dims dims;
    for (int rank = static_cast<int>(engine_() % 6); rank > 0; --rank) dims.push_back(one_of(sizes));
    return dims;
  }
  Tensor contents(DType dtype, const Dims& dims) {
    Tensor t = make_tensor(dtype, dims).value();
    for (int64_t i = 0; i < t.elements(); ++i) switch (dtype) {
        case DType::kFloat:
          t.as<float>()[i] = real();
          break;
        case DType::kDouble:
          t.as<double>()[i] = real();
          break;
        case DType::kInt64:
          t.as<int64_t>()[i] = whole();
          break;
        case DType::kString:
          t.as<std::string>()[i] = chance(50) ? "1" : "x";
          break;
        case DType::kBool:
          t.as<uint8_t>()[i] = chance(50);
          break;
        default: {
          const int64_t n = whole();
          std::memcpy(static_cast<char*>(t.data) + i * (info(dtype).bits / 8), &n, info(dtype).bits / 8);
        }
      }
    return t;
  }
  DType pick(const AllowedTypes& allowed) {
    static const DType usual[] = {DType::kFloat,  DType::kFloat,   DType::kFloat,    DType::kInt64,  DType::kInt64,
                                  DType::kDouble, DType::kFloat16, DType::kBFloat16, DType::kInt32,  DType::kInt8,
                                  DType::kUint8,  DType::kUint64,  DType::kBool,     DType::kString, DType::kInt16};
    for (int tries = 0; tries < 40; ++tries)
      if (const DType d = one_of(usual); allowed.allows_tensor(d)) return d;
    return DType::kUndefined;
  }

  // A graph of one node, or null if the operator takes what is not made here.
  std::unique_ptr<Graph> node(const OpSchema& op, std::vector<Value>* feeds) {
    auto g = std::make_unique<Graph>();
    std::vector<ValueId> in, out;
    const int most = std::min(op.max_inputs, op.min_inputs + 3);
    const int count = op.min_inputs + static_cast<int>(engine_() % (most - op.min_inputs + 1));
    std::map<std::string_view, DType> types;
    Dims first = shape();
    for (int i = 0; i < count; ++i) {
      const FormalParam* formal = op.input(i);
      if (formal->kind == FormalKind::kOptional && chance(25)) {
        in.push_back({});
        continue;
      }
      auto [type, fresh] = types.emplace(formal->type, DType::kUndefined);
      if (fresh || !formal->homogeneous) type->second = pick(*formal->allowed);
      if (type->second == DType::kUndefined) return nullptr;
      Dims dims = chance(50) ? first : shape();
      if (i > 0 && type->second == DType::kInt64) dims = {static_cast<int64_t>(engine_() % 5)};
      if (i > 0 && chance(15)) dims = {};
      Tensor t = contents(type->second, dims);
      if (chance(40)) {
        in.push_back(g->add_constant("", t));
        continue;
      }
      SymShape declared = SymShape::of(dims);
      if (chance(30)) declared = SymShape::unknown();
      for (Dim& d : declared.dims)
        if (chance(20)) d = chance(50) ? Dim::unknown() : Dim::symbol(absl::StrCat("d", d.value()));
      in.push_back(g->add_input(absl::StrCat("x", i), ValueType::tensor(t.dtype), declared));
      feeds->push_back(t);
    }
    const int outputs =
        op.min_outputs + static_cast<int>(engine_() % (std::min(op.max_outputs, 3) - op.min_outputs + 1));
    for (int i = 0; i < std::max(1, outputs); ++i) out.push_back(g->add_value(absl::StrCat("y", i)));
    Attributes attributes;
    for (const AttributeSchema& a : op.attributes)
      if (a.required || chance(35)) {
        if (!set(a, &attributes)) return nullptr;
      }
    g->add_node({std::string(op.domain), std::string(op.name), op.since_version}, "n", in, out, attributes);
    for (ValueId v : out) g->add_output(v);
    return g;
  }

 private:
  bool set(const AttributeSchema& a, Attributes* to) {
    static const char* words[] = {"NOTSET",
                                  "SAME_UPPER",
                                  "SAME_LOWER",
                                  "VALID",
                                  "constant",
                                  "reflect",
                                  "edge",
                                  "wrap",
                                  "nearest",
                                  "linear",
                                  "cubic",
                                  "half_pixel",
                                  "align_corners",
                                  "asymmetric",
                                  "floor",
                                  "tf_crop_and_resize",
                                  "ceil",
                                  "DCR",
                                  "CRD",
                                  "tanh",
                                  "none",
                                  "bogus",
                                  ""};
    switch (a.type) {
      case AttrType::kInt:
        to->set(a.name, a.name == "to" || a.name == "dtype" ? static_cast<int64_t>(engine_() % 18) : whole());
        return true;
      case AttrType::kFloat:
        to->set(a.name, real());
        return true;
      case AttrType::kString:
        to->set(a.name, std::string(one_of(words)));
        return true;
      case AttrType::kInts: {
        std::vector<int64_t> list;
        for (unsigned n = engine_() % 5; n > 0; --n) list.push_back(whole());
        to->set(a.name, list);
        return true;
      }
      case AttrType::kTensor:
        to->set(a.name, contents(DType::kFloat, chance(70) ? Dims{1} : shape()));
        return true;
      default:
        return !a.required;
    }
  }
  std::mt19937 engine_;
};

struct Outcome {
  Status status;
  std::vector<Value> outputs;
};

Outcome load_and_run(std::unique_ptr<Graph> graph, const std::vector<Value>& feeds, OptimizationLevel level) {
  SessionOptions o;
  o.optimization_level = level;
  o.intra_op_threads = 1;
  o.memory_limit = kMemory;
  o.fold_budget = 1 << 20;
  o.validate_plans = true;
  auto s = Session::from_graph(std::move(graph), o);
  if (!s.ok()) return {s.status(), {}};
  std::vector<Dims> dims;
  for (const Value& v : feeds) dims.push_back(v.tensor().dims);
  auto plan = (*s)->plan_for(dims);
  if (!plan.ok()) return {plan.status(), {}};
  if ((*plan)->plan.naive > kPlanToRun) return {exhausted("large"), {}};
  Outcome r;
  r.outputs.resize((*s)->outputs().size());
  r.status = (*s)->run_ordered(feeds, r.outputs);
  return r;
}

// Equal but for rounding; "" or what differs.
std::string difference(const Value& a, const Value& b) {
  if (a.is_tensor() != b.is_tensor()) return "kind";
  if (!a.is_tensor()) return "";
  const Tensor &s = a.tensor(), &t = b.tensor();
  if (s.dtype != t.dtype) return "type";
  if (s.dims != t.dims) return absl::StrCat("shape ", to_string(s.dims), " or ", to_string(t.dims));
  if (s.dtype == DType::kString || s.dtype == DType::kFloat16 || s.dtype == DType::kBFloat16) return "";
  for (int64_t i = 0; i < s.elements(); ++i) {
    if (s.dtype == DType::kFloat) {
      const float x = s.as<float>()[i], y = t.as<float>()[i];
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= 1e-4f * (1 + std::fabs(x))) continue;
      return absl::StrCat("element ", i, ": ", x, " or ", y);
    }
    const int width = info(s.dtype).bits / 8;
    if (s.dtype != DType::kDouble && std::memcmp(static_cast<const char*>(s.data) + i * width,
                                                 static_cast<const char*>(t.data) + i * width, width) != 0)
      return absl::StrCat("element ", i);
  }
  return "";
}

TEST(RandomNodes, AStatusOrTheSameAnswerAtEveryLevel) {
  int ran = 0, operators = 0;
  std::string_view last;
  for (const OpSchema& any : all_schemas()) {
    if (!any.domain.empty() || any.name == last || !operator_library().has("", any.name)) continue;
    last = any.name;
    const OpSchema& op = schema_versions("", any.name).back();
    ++operators;
    for (int round = 0; round < kRoundsPerOperator; ++round) {
      Maker maker(static_cast<unsigned>(round) * 131 + static_cast<unsigned>(operators));
      std::vector<Value> feeds;
      auto g = maker.node(op, &feeds);
      if (!g) continue;
      const std::string text = to_text(*g);
      const Outcome plain = load_and_run(g->clone(), feeds, OptimizationLevel::disabled);
      const Outcome best = load_and_run(std::move(g), feeds, OptimizationLevel::all);
      if (!plain.status.ok()) {
        EXPECT_FALSE(plain.status.message().empty());
        EXPECT_FALSE(absl::IsInternal(plain.status)) << plain.status << "\n" << text;
        continue;
      }
      ++ran;
      EXPECT_TRUE(best.status.ok()) << best.status << "\n" << text;
      if (!best.status.ok() || op.name == "Dropout") continue;
      for (size_t i = 0; i < plain.outputs.size(); ++i) {
        const std::string differs = difference(plain.outputs[i], best.outputs[i]);
        EXPECT_EQ(differs, "") << "output " << i << " of\n" << text;
      }
    }
  }
  EXPECT_GT(operators, 70);
  EXPECT_GT(ran, 3000);
}

}  // namespace
}  // namespace forethought
