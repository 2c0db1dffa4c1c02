// What the subcommands share: options of a model, exit codes, reading shapes and inputs.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "session/session.h"

namespace forethought {

// Exit codes, as --help tells them.
enum ExitCode { kOk = 0, kDifferent = 1, kUsage = 2, kBadInput = 3, kRunFailed = 4 };

struct ModelArguments {
  std::string path;
  std::string level = "all";
  std::string plan = "packed";
  int threads = 0, lanes = 0;
  std::vector<std::string> providers;
  bool allow_fallback = false;
  std::vector<std::string> shapes;      // NAME=1,3,48,320
  std::vector<std::string> dimensions;  // SYMBOL=8
  std::vector<std::string> max_dimensions;
  std::string memory_limit = "0", device_memory_limit = "0";  // "200M"; 0: none
  std::vector<std::string> config;                            // KEY=VALUE
  int rewrite_limit = -1;
  std::vector<std::string> without;  // rewrites that are not tried
};

// Adds the options of a session that every subcommand has; or these, the model and the dims of its inputs.
void add_session_options(CLI::App& command, ModelArguments* a);
void add_model_options(CLI::App& command, ModelArguments* a);
// An option that may be repeated, with one value each time.
template <typename T>
CLI::Option* add_repeated(CLI::App& command, const char* flag, std::vector<T>* values, const char* text) {
  return command.add_option(flag, *values, std::string(text) + " (may be repeated)")->allow_extra_args(false);
}
// What stands below the options in --help: exit codes, then examples, one a line.
std::string footer(std::initializer_list<const char*> examples);
// The options as the session wants them; an error is a wrong use of the command line.
StatusOr<SessionOptions> session_options(const ModelArguments& a);
// Loads .onnx, or a graph in text form (.txt, .graph).
StatusOr<std::unique_ptr<Session>> load_session(const ModelArguments& a, const SessionOptions& options);
StatusOr<PipelineResult> load_to_stage(const ModelArguments& a, const SessionOptions& options, Stage until);

// The dims of every input: from --shape, else from the model; none of inputs in `files`, which come from files, and of
// those with a default. Symbols that have a bound and nothing else are of their largest size, if that is asked for. An
// input whose dims nothing gives, or --shape that contradicts the model, is an error that says which option to use: a
// wrong use of the command line.
enum class Sizes { given, largest };
StatusOr<std::vector<Dims>> input_dims(const ModelArguments& a, const Session& session, Sizes sizes = Sizes::given,
                                       const std::map<size_t, std::string>& files = {});
// Random values: floats normal, integers 0 to 9, bools; the same for the same seed.
StatusOr<Value> random_value(const NodeArg& input, const Dims& dims, uint64_t seed);
// One for each input, seeded by its position; none where the input has a default.
StatusOr<std::vector<Value>> random_inputs(const Session& session, const std::vector<Dims>& dims);

// NAME=…, where the first = ends the name, or the last, so that names may hold some.
enum class Name { shortest, longest };
StatusOr<std::pair<std::string, std::string>> split(const std::string& text, const char* form,
                                                    Name which = Name::shortest);
std::string did_you_mean(std::string_view name, const std::vector<std::string>& names);  // "; did you mean 'x'?" or ""

int fail(const Status& status, ExitCode code);    // prints the error; returns the code, or kUsage for a wrong option
bool on_terminal();                               // whether progress may be drawn on standard error
void progress(const std::string& text);           // draws over the last one; nothing without a terminal
std::string bytes_text(int64_t bytes);            // "12.3 MiB"
std::string memory_text(const Session& session);  // its statistics, a line each

// Each adds its subcommand; the callback leaves the exit code in `*code`.
void add_run(CLI::App& app, int* code);
void add_info(CLI::App& app, int* code);
void add_dump(CLI::App& app, int* code);
void add_plan(CLI::App& app, int* code);
void add_trace(CLI::App& app, int* code);
void add_stages(CLI::App& app, int* code);
void add_check(CLI::App& app, int* code);
void add_bench(CLI::App& app, int* code);

}  // namespace forethought
