// forethought run: one run of a model on files or random values.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "onnx/file/mapping.h"
#include "onnx/value/value_file.h"
#include "session/counts.h"
#include "tools/forethought/command.h"
#include "tools/support/npy.h"

namespace forethought {
namespace {

struct RunArguments {
  ModelArguments model;
  std::vector<std::string> inputs;  // NAME=FILE
  std::string output_dir;
  uint64_t seed = 0;
  bool memory_stats = false, stats = false;
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

// Which file each --input names, by position of the input.
StatusOr<std::map<size_t, std::string>> input_files(const RunArguments& a, const std::vector<NodeArg>& inputs) {
  std::map<size_t, std::string> files;
  std::vector<std::string> names;
  for (const NodeArg& in : inputs) names.push_back(in.name);
  for (const std::string& text : a.inputs) {
    ASSIGN_OR_RETURN(const auto pair, split(text, "NAME=FILE"));
    const auto at = std::find(names.begin(), names.end(), pair.first);
    if (at == names.end())
      return invalid(
          absl::StrCat("--input: the model has no input '", pair.first, "'", did_you_mean(pair.first, names)));
    if (!files.emplace(at - names.begin(), pair.second).second)
      return invalid(absl::StrCat("--input names '", pair.first, "' twice"));
  }
  return files;
}

StatusOr<std::vector<Value>> make_inputs(const RunArguments& a, const std::vector<NodeArg>& inputs,
                                         const std::map<size_t, std::string>& files, const std::vector<Dims>& dims) {
  std::vector<Value> values(inputs.size());
  for (const auto& [i, path] : files) {
    ASSIGN_OR_RETURN(values[i], read_input(path, inputs[i]));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!values[i].is_none() || inputs[i].has_default) continue;
    ASSIGN_OR_RETURN(values[i], random_value(inputs[i], dims[i], a.seed + i));
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

// output_I.npy; the elements of a sequence as output_I_K.npy.
Status write_output(const std::filesystem::path& stem, const Value& v) {
  if (v.is_none()) return absl::OkStatus();
  if (const Sequence* s = v.sequence()) {
    for (size_t k = 0; k < s->items.size(); ++k)
      RETURN_IF_ERROR(write_output(stem.string() + fmt::format("_{}", k), s->items[k]));
    return absl::OkStatus();
  }
  if (!v.is_tensor()) return unsupported("only tensors and sequences of tensors can be written to .npy files");
  return write_npy(stem.string() + ".npy", v.tensor());
}

// CLI takes the largest number for a larger one.
std::string check_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && read == end) return "";
  return fmt::format("'{}' is no whole number from 0 to {}", text, std::numeric_limits<uint64_t>::max());
}

int run(const RunArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto session = load_session(a.model, *options);
  if (!session.ok()) return fail(session.status(), kBadInput);
  auto files = input_files(a, (*session)->inputs());
  if (!files.ok()) return fail(files.status(), kUsage);
  auto dims = input_dims(a.model, **session, Sizes::given, *files);
  if (!dims.ok()) return fail(dims.status(), kUsage);
  auto inputs = make_inputs(a, (*session)->inputs(), *files, *dims);
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
    if (Status s = write_output(std::filesystem::path(a.output_dir) / fmt::format("output_{}", i), outputs[i]); !s.ok())
      return fail(s, kBadInput);
  }
  fmt::print("{:.3f} ms\n", ms.count());
  if (a.stats)
    for (const auto& [name, count] : counts((*session)->summary())) fmt::print("{:<17} {}\n", name, count);
  if (a.memory_stats) fmt::print("{}", memory_text(**session));
  return kOk;
}

}  // namespace

void add_run(CLI::App& app, int* code) {
  auto* a = new RunArguments;  // lives as long as the process, as CLI11 wants
  CLI::App* c = app.add_subcommand("run", "Run once, on given or random inputs");
  add_model_options(*c, &a->model);
  add_repeated(*c, "--input", &a->inputs, "An input from a .npy or .pb file: NAME=FILE; others are random");
  c->add_option("--output-dir", a->output_dir,
                "Write every output there as output_I.npy, elements of a sequence as output_I_K.npy");
  c->add_option("--seed", a->seed, "Seed of random inputs")->check(check_seed)->capture_default_str();
  c->add_flag("--memory-stats", a->memory_stats,
              "Print what the session has of the system after the run, and for what");
  c->add_flag("--stats", a->stats, "Print what was counted of plans, and of what kernels made for shapes");
  c->footer(footer({"run model.onnx", "run model.onnx --input x=image.npy --output-dir out",
                    "run model.onnx --shape x=2,3,48,320 --seed 7 --level disabled",
                    "run model.onnx --memory-stats --memory-limit 200M"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
