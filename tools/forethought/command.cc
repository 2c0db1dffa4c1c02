#include "tools/forethought/command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/schema/schema.h"
#include "graph/text.h"
#include "providers/cpu/cpu_provider.h"
#include "session/bounds.h"
#include "session/input_symbols.h"

namespace forethought {
namespace {

constexpr std::pair<const char*, OptimizationLevel> kLevels[] = {{"disabled", OptimizationLevel::disabled},
                                                                 {"basic", OptimizationLevel::basic},
                                                                 {"extended", OptimizationLevel::extended},
                                                                 {"all", OptimizationLevel::all}};

bool is_text(const std::string& path) { return path.ends_with(".txt") || path.ends_with(".graph"); }

StatusOr<std::unique_ptr<Graph>> read_text(const std::string& path) {
  std::ifstream in(path);
  if (!in) return not_found(absl::StrCat(path, " cannot be read"));
  std::stringstream text;
  text << in.rdbuf();
  auto graph = graph_from_text(text.str());
  if (!graph.ok()) return with_context(graph.status(), path);
  return graph;
}

StatusOr<int64_t> number(std::string_view text) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size() || v < 0)
    return invalid(absl::StrCat("'", std::string(text), "' is no size"));
  return v;
}

// Input names with their dims, from --shape.
StatusOr<std::map<std::string, Dims>> shapes_of(const ModelArguments& a) {
  std::map<std::string, Dims> given;
  for (const std::string& s : a.shapes) {
    ASSIGN_OR_RETURN(const auto pair, split(s, "NAME=1,3,224,224", Name::longest));
    if (given.count(pair.first)) return invalid(absl::StrCat("--shape names '", pair.first, "' twice"));
    Dims& dims = given[pair.first];
    std::string_view rest = pair.second;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      auto d = number(rest.substr(0, comma));
      if (!d.ok()) return with_context(d.status(), absl::StrCat("--shape ", s));
      dims.push_back(*d);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return given;
}

// Numbers for symbols, from --dim or --max-dim.
StatusOr<std::map<std::string, int64_t>> numbers_of(const std::vector<std::string>& arguments, const char* option) {
  std::map<std::string, int64_t> numbers;
  for (const std::string& d : arguments) {
    ASSIGN_OR_RETURN(const auto pair, split(d, "SYMBOL=8", Name::longest));
    auto n = number(pair.second);
    if (!n.ok()) return with_context(n.status(), absl::StrCat(option, " ", d));
    if (!numbers.emplace(pair.first, *n).second)
      return invalid(absl::StrCat(option, " names '", pair.first, "' twice"));
  }
  return numbers;
}

StatusOr<int64_t> limit_of(const std::string& text, const char* option) {
  if (text.empty()) return invalid(absl::StrCat(option, " is empty; give bytes, or 0 for no limit"));
  auto bytes = parse_memory_size(text);
  if (!bytes.ok()) return with_context(bytes.status(), option);
  return bytes;
}

// An error if dims from --shape are none that the input declares.
Status check_shape(const NodeArg& input, const Dims& given) {
  if (!input.type.is_tensor())
    return invalid(absl::StrCat("--shape names '", input.name, "', which is ", to_string(input.type),
                                " and has no shape: give it as a file"));
  if (input.takes(given)) return absl::OkStatus();
  return invalid(absl::StrCat("--shape ", input.name, "=", absl::StrJoin(given, ","), ": the model declares input '",
                              input.name, "' as ", to_string(input.shape), "; give ", input.shape.dims.size(),
                              input.shape.dims.size() == 1 ? " dim" : " dims",
                              ", and where the model has a number, that number"));
}

#define RULE(stage, rewrite) #rewrite,
constexpr const char* kRewrites[] = {
#include "passes/pipeline.inc"
    "remove_dead", "layout"};
#undef RULE

}  // namespace

std::string footer(std::initializer_list<const char*> examples) {
  std::string text =
      "Exit codes: 0 all went well; 1 results differ from what was expected; 2 wrong use of the command line; 3 a\n"
      "model, input or output file cannot be read, used or written; 4 a run failed.\n\nExamples:\n";
  for (const char* e : examples) absl::StrAppend(&text, "  forethought ", e, "\n");
  return text;
}

StatusOr<std::pair<std::string, std::string>> split(const std::string& text, const char* form, Name which) {
  const size_t equals = which == Name::longest ? text.rfind('=') : text.find('=');
  if (equals == std::string::npos || equals == 0)
    return invalid(absl::StrCat("'", text, "' is not of the form ", form));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string near(nearest_name(name, views));
  return near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?");
}

void add_session_options(CLI::App& c, ModelArguments* a) {
  c.add_option("--level", a->level, "Optimisation level: disabled, basic, extended, all")
      ->check(CLI::IsMember({"disabled", "basic", "extended", "all"}))
      ->capture_default_str();
  c.add_option("--threads", a->threads, "Threads of a run, the caller's included; 0: one for each allowed core")
      ->check(CLI::Range(0, kMostThreads));
  c.add_option("--lanes", a->lanes, "Lanes for parallel branches; 0: where they are expected to be faster")
      ->check(CLI::Range(0, kMostLanes));
  c.add_option(
       "--plan-mode", a->plan,
       "packed: one slab at planned offsets; exact: with a complete search at load; slots: values take whole slots; "
       "off: a buffer for each value")
      ->check(CLI::IsMember({"packed", "exact", "slots", "off"}))
      ->capture_default_str();
  add_repeated(c, "--provider", &a->providers, "An execution provider, in order of priority; the CPU takes the rest");
  c.add_flag("--allow-fallback", a->allow_fallback, "A provider that cannot load is a warning instead of an error");
  c.add_option("--memory-limit", a->memory_limit,
               "Most bytes that the session may take, weights included: 200000000, 200M, 1.5G");
  c.add_option("--device-memory-limit", a->device_memory_limit, "The same on each device with memory of its own");
  add_repeated(c, "--config", &a->config,
               "A config entry: session.weights=streamed, session.disable_prepacking=1, "
               "session.packed_weights_path=FOLDER");
  c.add_option("--rewrite-limit", a->rewrite_limit,
               "Stop after so many rewrites, to find the one that changes a result")
      ->check(CLI::NonNegativeNumber);
  add_repeated(c, "--without", &a->without, "Name of a rewrite that is not to be tried");
}

void add_model_options(CLI::App& c, ModelArguments* a) {
  c.add_option("model", a->path, "The model: an .onnx file, or a graph in text form (.txt, .graph)")->required();
  add_repeated(c, "--shape", &a->shapes, "Dims of an input: NAME=1,3,224,224");
  add_repeated(c, "--dim", &a->dimensions, "A number for a symbolic dim: SYMBOL=8");
  add_repeated(c, "--max-dim", &a->max_dimensions, "An upper bound of a symbolic dim: one plan for all up to SYMBOL=8");
  add_session_options(c, a);
}

StatusOr<SessionOptions> session_options(const ModelArguments& a) {
  SessionOptions o;
  for (const auto& [name, level] : kLevels)
    if (a.level == name) o.optimization_level = level;
  o.intra_op_threads = a.threads;
  o.lanes = a.lanes;
  o.plan = plan_mode_from(a.plan).value_or(PlanMode::packed);
  register_cpu_provider();
  const std::vector<std::string> known = ProviderRegistry::global().names();
  for (const std::string& p : a.providers) {
    if (!a.allow_fallback && std::find(known.begin(), known.end(), p) == known.end())
      return invalid(absl::StrCat("there is no execution provider '", p, "'; there are: ", absl::StrJoin(known, ", ")));
    o.providers.push_back({p, {}});
  }
  o.allow_fallback = a.allow_fallback;
  ASSIGN_OR_RETURN(o.memory_limit, limit_of(a.memory_limit, "--memory-limit"));
  ASSIGN_OR_RETURN(o.device_memory_limit, limit_of(a.device_memory_limit, "--device-memory-limit"));
  for (const std::string& entry : a.config) {
    auto pair = split(entry, "KEY=VALUE");
    if (!pair.ok()) return with_context(pair.status(), "--config");
    if (!o.config.insert(*pair).second) return invalid(absl::StrCat("--config names '", pair->first, "' twice"));
  }
  o.rewrite_limit = a.rewrite_limit;
  o.disabled_rewrites = a.without;
  for (const std::string& rewrite : a.without)
    if (std::find(std::begin(kRewrites), std::end(kRewrites), rewrite) == std::end(kRewrites))
      return invalid(absl::StrCat("there is no rewrite '", rewrite, "'; there are: ", absl::StrJoin(kRewrites, ", ")));
  RETURN_IF_ERROR(shapes_of(a).status());
  ASSIGN_OR_RETURN(o.free_dimensions, numbers_of(a.dimensions, "--dim"));
  ASSIGN_OR_RETURN(o.max_dimensions, numbers_of(a.max_dimensions, "--max-dim"));
  for (const auto& [name, most] : o.max_dimensions)
    if (const auto it = o.free_dimensions.find(name); it != o.free_dimensions.end())
      return invalid(absl::StrCat("--dim ", name, "=", it->second, " makes '", name, "' a number, --max-dim ", name,
                                  "=", most,
                                  " bounds it: give one of the two (with --max-dim, sizes come by --shape)"));
  RETURN_IF_ERROR(check_options(o));
  return o;
}

StatusOr<std::unique_ptr<Session>> load_session(const ModelArguments& a, const SessionOptions& options) {
  progress(absl::StrCat("loading ", a.path));
  if (!is_text(a.path)) return Session::load(a.path, options);
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, read_text(a.path));
  return Session::from_graph(std::move(graph), options);
}

StatusOr<PipelineResult> load_to_stage(const ModelArguments& a, const SessionOptions& options, Stage until) {
  progress(absl::StrCat("loading ", a.path));
  ModelSource source;
  if (is_text(a.path)) {
    ASSIGN_OR_RETURN(source.graph, read_text(a.path));
  } else {
    source.path = a.path;
  }
  return run_pipeline(std::move(source), options, until);
}

StatusOr<std::vector<Dims>> input_dims(const ModelArguments& a, const Session& session, Sizes sizes,
                                       const std::map<size_t, std::string>& files) {
  const std::vector<NodeArg>& inputs = session.inputs();
  ASSIGN_OR_RETURN(const auto given, shapes_of(a));
  ASSIGN_OR_RETURN(const DimensionBounds bounds, dimension_bounds(session.options(), session.info(), inputs));
  std::vector<std::string> names;
  for (const NodeArg& in : inputs) names.push_back(in.name);
  for (const auto& [name, dims] : given) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      return invalid(
          absl::StrCat("--shape names '", name, "', which is no input of the model", did_you_mean(name, names)));
    if (files.count(at - names.begin()))
      return invalid(absl::StrCat("--shape names '", name, "', which comes from a file"));
  }
  std::vector<Dims> result(inputs.size());
  std::vector<Value> told(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NodeArg& in = inputs[i];
    const auto it = given.find(in.name);
    SymShape shape = in.shape;
    if (sizes == Sizes::largest) put_numbers(bounds, &shape);
    const auto numbers = shape.numbers();
    if (it != given.end()) {
      RETURN_IF_ERROR(check_shape(in, it->second));
      result[i] = it->second;
      Tensor t;
      t.dims = it->second;
      told[i] = std::move(t);
    } else if (numbers) {
      result[i].assign(numbers->begin(), numbers->end());
    } else if (in.type.is_tensor() && !in.has_default && !files.count(i)) {
      return invalid(absl::StrCat("input '", in.name, "' has the shape ", to_string(in.shape),
                                  ": give its dims with --shape ", in.name,
                                  "=…, or numbers for its symbols with --dim"));
    }
  }
  RETURN_IF_ERROR(with_context(InputSymbols(inputs, bounds).check(inputs, told), "--shape"));
  return result;
}

StatusOr<Value> random_value(const NodeArg& input, const Dims& dims, uint64_t seed) {
  if (!input.type.is_tensor())
    return unsupported(absl::StrCat("input '", input.name, "' is ", to_string(input.type), ": give it as a file"));
  ASSIGN_OR_RETURN(Tensor t, make_tensor(input.type.dtype(), dims));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const int64_t n = t.elements();
  const bool filled = dispatch(t.dtype, NumberTypes{}, [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_integral_v<T>) {
        t.as<T>()[i] = static_cast<T>(random() % 10);
      } else if constexpr (std::is_same_v<T, double>) {
        t.as<T>()[i] = normal(random);
      } else {
        t.as<T>()[i] = T(normal(random));
      }
    }
  });
  if (t.dtype == DType::kBool) {
    for (int64_t i = 0; i < n; ++i) t.as<uint8_t>()[i] = random() & 1;
  } else if (!filled) {
    return unsupported(
        absl::StrCat("random values of ", name(t.dtype), " cannot be made: give input '", input.name, "' as a file"));
  }
  return Value(std::move(t));
}

StatusOr<std::vector<Value>> random_inputs(const Session& session, const std::vector<Dims>& dims) {
  std::vector<Value> values(session.inputs().size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (session.inputs()[i].has_default) continue;
    ASSIGN_OR_RETURN(values[i], random_value(session.inputs()[i], dims[i], i));
  }
  return values;
}

int fail(const Status& status, ExitCode code) {
  progress("");
  fmt::print(stderr, "forethought: {}\n", std::string(status.message()));
  return is_wrong_option(status) ? kUsage : code;
}

bool on_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

void progress(const std::string& text) {
  if (!on_terminal()) return;
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
}

std::string memory_text(const Session& session) {
  std::string text = "memory, in bytes\n";
  for (const auto& [name, bytes] : named(session.memory_statistics()))
    text += fmt::format("  {:<10}{:>16}\n", name, bytes);
  return text;
}

std::string bytes_text(int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < (1 << 20)) return fmt::format("{:.1f} KiB", b / 1024);
  if (bytes < (1 << 30)) return fmt::format("{:.2f} MiB", b / (1 << 20));
  return fmt::format("{:.2f} GiB", b / (1 << 30));
}

}  // namespace forethought
