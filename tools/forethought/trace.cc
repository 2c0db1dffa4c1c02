// forethought trace: runs as a file for Perfetto or chrome://tracing.
#include "session/trace.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct TraceArguments {
  ModelArguments model;
  std::string output;
  int runs = 1, warmup = 1;
};

Status write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? absl::OkStatus() : invalid(absl::StrCat(path, " cannot be written"));
}

// What the session has of the system: what each role uses, and what is kept for the next use.
TraceRecorder::Bytes parts(const MemoryStatistics& s) {
  TraceRecorder::Bytes all;
  int64_t retained = 0;
  for (int r = 0; r < kMemoryRoles; ++r) {
    all.emplace_back(name(static_cast<MemoryRole>(r)), s.roles[r].live);
    retained += s.roles[r].retained;
  }
  all.emplace_back("retained", retained);
  return all;
}

int run(const TraceArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  auto loaded = load_session(a.model, *options);
  if (!loaded.ok()) return fail(loaded.status(), kBadInput);
  Session& session = **loaded;
  auto dims = input_dims(a.model, session);
  if (!dims.ok()) return fail(dims.status(), kUsage);
  auto inputs = random_inputs(session, *dims);
  if (!inputs.ok()) return fail(inputs.status(), kBadInput);
  TraceRecorder recorder([&session] { return parts(session.memory_statistics()); });
  RunOptions traced;
  traced.sink = &recorder;
  for (int r = 0; r < a.warmup + a.runs; ++r) {
    const bool is_traced = r >= a.warmup;
    std::vector<Value> outputs(session.outputs().size());
    if (is_traced) recorder.begin_run();
    const Status status = session.run_ordered(*inputs, outputs, is_traced ? traced : RunOptions::plain());
    if (is_traced) recorder.end_run();
    if (!status.ok()) return fail(status, kRunFailed);
  }
  const std::string title = std::filesystem::path(a.model.path).filename().string();
  if (Status s = write(a.output, recorder.take(title)); !s.ok()) return fail(s, kBadInput);
  fmt::print("{}: {} run{}; open it at ui.perfetto.dev or chrome://tracing\n", a.output, a.runs,
             a.runs == 1 ? "" : "s");
  return kOk;
}

}  // namespace

void add_trace(CLI::App& app, int* code) {
  auto* a = new TraceArguments;
  CLI::App* c = app.add_subcommand("trace", "Runs on random inputs as a trace file: steps, lanes, waits, live bytes");
  add_model_options(*c, &a->model);
  c->add_option("-o,--output", a->output, "The file to write, in the JSON form that Perfetto and chrome://tracing open")
      ->required();
  c->add_option("--runs", a->runs, "How many runs to record")->check(CLI::Range(1, 1000))->capture_default_str();
  c->add_option("--warmup", a->warmup, "Runs before them that are not recorded")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  c->footer(
      footer({"trace model.onnx -o trace.json", "trace model.onnx --shape x=1,3,48,320 --threads 2 -o trace.json"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
