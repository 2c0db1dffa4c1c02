#include "tools/support/cases.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "exec/shadow.h"
#include "onnx/file/mapping.h"
#include "onnx/value/value_file.h"
#include "tools/support/npy.h"

namespace forethought {
namespace fs = std::filesystem;
namespace {

bool is_set(const fs::path& p) {
  const std::string n = p.filename().string();
  return fs::is_directory(p) && (n.starts_with("test_data_set_") || n.starts_with("case_"));
}

// What a JSON object says about tolerances; what is no number is passed over.
void read_tolerance(const nlohmann::json& json, Tolerance* t) {
  if (!json.is_object()) return;
  const auto number = [&](const char* key, double* v) {
    if (json.contains(key) && json[key].is_number()) *v = json[key].get<double>();
  };
  number("rtol", &t->rtol);
  number("atol", &t->atol);
  number("mean", &t->mean);
}

// `real` cases name a light model in data.json; its expected output lies beside the model.
void add_light(const fs::path& folder, const std::string& name, std::vector<TestCase>* out) {
  std::ifstream in(folder / "data.json");
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains("url") || !json["url"].is_string()) return;
  const std::string model = fs::path(json["url"].get<std::string>()).filename().string();
  const fs::path light = folder.parent_path().parent_path() / "light";
  TestCase c;
  c.name = name;
  c.model = (light / model).string();
  c.sets.push_back((light / (fs::path(model).stem().string() + "_output_0.pb")).string());
  read_tolerance(json, &c.tolerance);
  out->push_back(std::move(c));
}

void add_case(const fs::path& folder, const fs::path& root, std::vector<TestCase>* out) {
  const std::string name = folder == root ? folder.filename().string() : fs::relative(folder, root).string();
  if (!fs::exists(folder / "model.onnx")) {
    if (fs::exists(folder / "data.json")) add_light(folder, name, out);
    return;
  }
  TestCase c;
  c.name = name;
  c.model = (folder / "model.onnx").string();
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_set(entry.path())) continue;
    c.sets.push_back(entry.path().string());
    if (entry.path().filename().string().starts_with("case_")) c.tolerance.atol = 1e-5;
  }
  std::sort(c.sets.begin(), c.sets.end());
  std::ifstream in(folder / "tolerance.json");
  if (in) read_tolerance(nlohmann::json::parse(in, nullptr, false), &c.tolerance);
  out->push_back(std::move(c));
}

StatusOr<Value> read_one(const fs::path& stem, const ValueType& type) {
  if (const fs::path npy = stem.string() + ".npy"; fs::exists(npy)) {
    ASSIGN_OR_RETURN(Tensor t, read_npy(npy.string()));
    return Value(std::move(t));
  }
  const std::string pb = stem.string() + ".pb";
  ASSIGN_OR_RETURN(const ByteSource bytes, map_file(pb));
  return read_value(bytes, type);
}

bool present(const fs::path& stem) { return fs::exists(stem.string() + ".npy") || fs::exists(stem.string() + ".pb"); }

StatusOr<std::vector<Value>> read_inputs(const Session& s, const fs::path& set) {
  std::vector<Value> inputs(s.inputs().size());
  int file = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (s.inputs()[i].has_default) continue;  // initializers that older files list among the inputs
    if (fs::is_regular_file(set)) {
      // A light model: arange(n)/n.
      const auto n = s.inputs()[i].shape.numbers();
      if (!n) return invalid("a light model's input has no fixed shape");
      ASSIGN_OR_RETURN(Tensor t, make_tensor(DType::kFloat, *n));
      const int64_t count = t.elements();
      for (int64_t k = 0; k < count; ++k)
        t.as<float>()[k] = static_cast<float>(static_cast<double>(k) / static_cast<double>(count));
      inputs[i] = std::move(t);
      continue;
    }
    const fs::path stem = set / absl::StrCat("input_", file++);
    if (!present(stem)) continue;
    ASSIGN_OR_RETURN(inputs[i], read_one(stem, s.inputs()[i].type));
  }
  return inputs;
}

bool same_tensors(const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].is_tensor() || a[i].tensor().dtype == DType::kString) continue;
    const Tensor &x = a[i].tensor(), &y = b[i].tensor();
    if (x.bytes() != y.bytes() || (x.bytes() > 0 && std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())) != 0)) {
      return false;
    }
  }
  return true;
}

// Runs in the shadow, twice for each way to fill free memory.
Status run_watched(Session& s, const std::vector<Value>& inputs) {
  std::vector<Value> first;
  for (const auto poison : {std::byte{0xff}, std::byte{0x5a}}) {
    ShadowSink shadow(poison);
    RunOptions options;
    options.sink = &shadow;
    for (int round = 0; round < 2; ++round) {
      std::vector<Value> outputs(s.outputs().size());
      RETURN_IF_ERROR(s.run_ordered(inputs, outputs, options));
      if (first.empty()) first = outputs;
      if (!same_tensors(first, outputs)) return invalid("outputs change with what free memory holds");
    }
    if (!shadow.faults().empty()) return invalid(shadow.faults().front());
  }
  return absl::OkStatus();
}

Status run_set(Session& s, const fs::path& set, const Tolerance& tolerance, bool shadow) {
  ASSIGN_OR_RETURN(const std::vector<Value> inputs, read_inputs(s, set));
  if (shadow) RETURN_IF_ERROR(run_watched(s, inputs));
  // Twice, so that what a first run leaves behind shows.
  for (int round = 0; round < 2; ++round) {
    std::vector<Value> outputs(s.outputs().size());
    RETURN_IF_ERROR(s.run_ordered(inputs, outputs));
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value expected;
      if (fs::is_regular_file(set)) {
        ASSIGN_OR_RETURN(const ByteSource bytes, map_file(set.string()));
        ASSIGN_OR_RETURN(expected, read_value(bytes, s.outputs()[i].type));
      } else {
        const bool ours = fs::exists(set / absl::StrCat("expected_", i, ".npy"));
        const fs::path stem = set / absl::StrCat(ours ? "expected_" : "output_", i);
        if (!present(stem)) return invalid(absl::StrCat("there is no expected value for output ", i));
        ASSIGN_OR_RETURN(expected, read_one(stem, s.outputs()[i].type));
      }
      RETURN_IF_ERROR(with_context(compare(outputs[i], expected, tolerance),
                                   absl::StrCat(round ? "second run › " : "", "output '", s.outputs()[i].name, "'")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<TestCase>> find_cases(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return not_found(absl::StrCat(folder, " is no folder"));
  std::vector<TestCase> cases;
  const fs::path root(folder);
  add_case(root, root, &cases);
  for (auto it = fs::recursive_directory_iterator(root, error); it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (error) return invalid(absl::StrCat(folder, " cannot be read: ", error.message()));
    if (!it->is_directory()) continue;
    if (is_set(it->path())) {
      it.disable_recursion_pending();
    } else {
      add_case(it->path(), root, &cases);
    }
  }
  std::sort(cases.begin(), cases.end(), [](const TestCase& a, const TestCase& b) { return a.name < b.name; });
  return cases;
}

Status run_sets(Session& session, const TestCase& test) {
  for (const std::string& set : test.sets)
    RETURN_IF_ERROR(with_context(run_set(session, set, test.tolerance, false), fs::path(set).filename().string()));
  return absl::OkStatus();
}

Status run_case_files(const TestCase& test, const SessionOptions& options, int* sets_run, bool shadow) {
  if (test.sets.empty()) return invalid("the case has no data set");
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::load(test.model, options));
  for (const std::string& set : test.sets) {
    RETURN_IF_ERROR(with_context(run_set(*session, set, test.tolerance, shadow), fs::path(set).filename().string()));
    if (sets_run) ++*sets_run;
  }
  return absl::OkStatus();
}

}  // namespace forethought
