// forethought run: one run of a model on files or random values.
#include <fmt/core.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "onnx/file/mapping.h"
#include "onnx/value/value_file.h"
#include "tools/forethought/command.h"
#include "tools/support/npy.h"

namespace forethought {
namespace {

struct RunArguments {
  ModelArguments model;
  std::vector<std::string> inputs;  // NAME=FILE
  std::string output_dir;
  uint64_t seed = 0;
};

StatusOr<Value> read_input(const std::string& path, const NodeArg& arg) {
  if (path.ends_with(".npy")) {
    ASSIGN_OR_RETURN(Tensor t, read_npy(path));
    return Value(std::move(t));
  }
  ASSIGN_OR_RETURN(const ByteSource bytes, map_file(path));
  auto value = read_value(bytes, arg.type);
  if (!value.ok()) return with_context(value.status(), path);
  return value;
}

StatusOr<std::vector<Value>> make_inputs(const RunArguments& a, const std::vector<NodeArg>& inputs) {
  std::vector<Value> values(inputs.size());
  std::vector<NodeArg> open;
  for (const std::string& text : a.inputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return invalid(absl::StrCat("'", text, "' is not of the form NAME=FILE"));
    const std::string name = text.substr(0, equals);
    size_t i = 0;
    while (i < inputs.size() && inputs[i].name != name) ++i;
    if (i == inputs.size()) return invalid(absl::StrCat("the model has no input '", name, "'"));
    ASSIGN_OR_RETURN(values[i], read_input(text.substr(equals + 1), inputs[i]));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (values[i].is_none() && !inputs[i].has_default) open.push_back(inputs[i]);
  ASSIGN_OR_RETURN(const std::vector<Dims> dims, input_dims(a.model, open));
  size_t k = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!values[i].is_none() || inputs[i].has_default) continue;
    ASSIGN_OR_RETURN(values[i], random_value(inputs[i], dims[k++], a.seed + i));
  }
  return values;
}

std::string describe(const Value& v) {
  if (v.is_none()) return "none";
  if (const Sequence* s = v.sequence()) return fmt::format("sequence of {}", s->items.size());
  if (!v.is_tensor()) return "object";
  const Tensor& t = v.tensor();
  std::string text = absl::StrCat(name(t.dtype), to_string(t.dims));
  double least = 0, most = 0, sum = 0;
  const int64_t n = t.elements();
  const bool numbers = dispatch(t.dtype, NumberTypes{}, [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) {
      double x;
      if constexpr (std::is_arithmetic_v<T>) {
        x = static_cast<double>(t.as<T>()[i]);
      } else {
        x = static_cast<float>(t.as<T>()[i]);
      }
      least = i ? std::min(least, x) : x;
      most = i ? std::max(most, x) : x;
      sum += x;
    }
  });
  if (numbers && n > 0)
    text += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", least, most, sum / static_cast<double>(n));
  return text;
}

Status write_output(const std::filesystem::path& folder, size_t index, const Value& v) {
  if (!v.is_tensor()) return unsupported("only tensors can be written to .npy files");
  return write_npy((folder / fmt::format("output_{}.npy", index)).string(), v.tensor());
}

int run(const RunArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto session = load_session(a.model, *options);
  if (!session.ok()) return fail(session.status(), kBadInput);
  auto inputs = make_inputs(a, (*session)->inputs());
  if (!inputs.ok()) return fail(inputs.status(), kBadInput);
  std::vector<Value> outputs((*session)->outputs().size());
  const auto start = std::chrono::steady_clock::now();
  if (Status s = (*session)->run_ordered(*inputs, outputs); !s.ok())
    return fail(s, absl::IsInvalidArgument(s) ? kBadInput : kRunFailed);
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  for (size_t i = 0; i < outputs.size(); ++i) {
    fmt::print("{}: {}\n", (*session)->outputs()[i].name, describe(outputs[i]));
    if (a.output_dir.empty()) continue;
    std::error_code error;
    std::filesystem::create_directories(a.output_dir, error);
    if (Status s = write_output(a.output_dir, i, outputs[i]); !s.ok()) return fail(s, kBadInput);
  }
  fmt::print("{:.3f} ms\n", ms.count());
  return kOk;
}

}  // namespace

void add_run(CLI::App& app, int* code) {
  auto* a = new RunArguments;  // lives as long as the process, as CLI11 wants
  CLI::App* c = app.add_subcommand("run", "Run once, on given or random inputs");
  add_model_options(*c, &a->model);
  c->add_option("--input", a->inputs,
                "An input from a .npy or .pb file: NAME=FILE (may be repeated); others are random");
  c->add_option("--output-dir", a->output_dir, "Write every output there as output_I.npy");
  c->add_option("--seed", a->seed, "Seed of random inputs")->capture_default_str();
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
