// forethought check: runs cases with expected outputs and compares by ONNX's rule.
#include <fmt/core.h>

#include "tools/forethought/command.h"
#include "tools/support/cases.h"

namespace forethought {
namespace {

struct CheckArguments {
  std::vector<std::string> folders;
  ModelArguments model;  // its path stays empty
  std::string filter;
  double rtol = -1, atol = -1;
  bool verbose = false, shadow = false;
};

int run(const CheckArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  int passed = 0, failed = 0;
  for (const std::string& folder : a.folders) {
    auto cases = find_cases(folder);
    if (!cases.ok()) return fail(cases.status(), kBadInput);
    size_t done = 0;
    for (TestCase& c : *cases) {
      ++done;
      if (!a.filter.empty() && c.name.find(a.filter) == std::string::npos) continue;
      progress(fmt::format("[{}/{}] {}", done, cases->size(), c.name));
      if (a.rtol >= 0) c.tolerance.rtol = a.rtol;
      if (a.atol >= 0) c.tolerance.atol = a.atol;
      const Status s = run_case_files(c, *options, nullptr, a.shadow);
      s.ok() ? ++passed : ++failed;
      if (s.ok() && !a.verbose) continue;
      progress("");
      fmt::print("{} {}{}\n", s.ok() ? "ok  " : "FAIL", c.name, s.ok() ? "" : ": " + std::string(s.message()));
    }
  }
  progress("");
  fmt::print("{} passed, {} failed\n", passed, failed);
  if (passed + failed == 0) return fail(not_found("there is no case in these folders"), kBadInput);
  return failed ? kDifferent : kOk;
}

}  // namespace

void add_check(CLI::App& app, int* code) {
  auto* a = new CheckArguments;
  CLI::App* c = app.add_subcommand("check", "Run cases with expected outputs and compare by ONNX's rule");
  c->add_option(
       "folders", a->folders,
       "Folders that hold cases: model.onnx with test_data_set_K/ (input_I.pb, output_I.pb) or case_K/ (input_I.npy, "
       "expected_I.npy) beside it")
      ->required();
  add_session_options(*c, &a->model);
  c->add_option("--filter", a->filter, "Only cases whose name contains this");
  c->add_option("--rtol", a->rtol, "Relative tolerance instead of the case's (1e-3)")->check(CLI::NonNegativeNumber);
  c->add_option("--atol", a->atol, "Absolute tolerance instead of the case's (1e-7)")->check(CLI::NonNegativeNumber);
  c->add_flag("--verbose", a->verbose, "Name the cases that pass, too");
  c->add_flag("--shadow", a->shadow,
              "Watch each step too: what it reads must be as it was made, what it writes its own; free memory is "
              "filled in two ways and must not show in the outputs");
  c->footer(footer({"check build/cases/node", "check build/cases --filter conv --level disabled", "check my_model"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
