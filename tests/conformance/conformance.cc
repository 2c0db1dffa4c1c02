// Runs the ONNX backend cases and compares each with its expected state: a regression and an unexpected pass both fail.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "tools/support/cases.h"
#include "tools/support/open_dims.h"

namespace forethought {
namespace {

struct Arguments {
  std::string cases, expected, level = "all", filter, only, kinds;
  bool write = false, verbose = false, shadow = false, open_dims = false;
  int threads = 1;
};

std::map<std::string, std::string> read_states(const std::string& path) {
  std::map<std::string, std::string> states;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t space = line.find(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    states[line.substr(space + 1)] = line.substr(0, space);
  }
  return states;
}

std::set<std::string> read_names(const std::string& path) {
  std::set<std::string> names;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) names.insert(line);
  return names;
}

// The folder that a case is in, among `kinds`, which commas separate.
bool of_kind(const std::string& name, const std::string& kinds) {
  return ("," + kinds + ",").find("," + name.substr(0, name.find('/')) + ",") != std::string::npos;
}

SessionOptions session_options(const Arguments& a) {
  SessionOptions o;
  o.intra_op_threads = a.threads;
  o.validate_plans = true;
  if (a.level == "disabled") o.optimization_level = OptimizationLevel::disabled;
  if (a.level == "basic") o.optimization_level = OptimizationLevel::basic;
  if (a.level == "extended") o.optimization_level = OptimizationLevel::extended;
  return o;
}

// Sizes by formula against those of the shape rules, for the models of all cases, and what plans have from others.
int run_open(const Arguments& a, const std::vector<TestCase>& cases, const std::map<std::string, std::string>& states) {
  int passed = 0, failed = 0, skipped = 0;
  OpenDimsCount all;
  for (const TestCase& c : cases) {
    OpenDimsCount count;
    const auto state = states.find(c.name);
    const bool passes = state != states.end() && state->second == "pass";
    const Status s = check_open_dims(c, session_options(a), passes, &count);
    (!s.ok() ? failed : count.shapes > 0 ? passed : skipped) += 1;
    if (!s.ok()) std::printf("FAIL  %s: %s\n", c.name.c_str(), std::string(s.message()).c_str());
    if (a.verbose && count.sessions > 0 && count.by_formula == 0) std::printf("rules  %s\n", c.name.c_str());
    all.sessions += count.sessions;
    all.shapes += count.shapes;
    all.by_formula += count.by_formula;
    all.by_order += count.by_order;
    all.steps += count.steps;
    all.steps_kept += count.steps_kept;
    all.ran += count.ran;
    std::fflush(stdout);
  }
  std::printf(
      "%ld sessions with open dims, %ld sets of shapes planned as at load and as in a run: %ld plans with sizes "
      "by formula, %ld with offsets by order, %ld of %ld steps kept but for dims; %ld sessions ran their case then\n",
      all.sessions, all.shapes, all.by_formula, all.by_order, all.steps_kept, all.steps, all.ran);
  const int64_t half = all.shapes / 2;
  if ((all.by_formula < half || all.by_order < half || all.steps_kept < all.steps / 4 || all.ran == 0) &&
      a.filter.empty()) {
    std::printf("FAIL  formulas or orders serve fewer plans than half the sets of shapes, or few steps are kept\n");
    ++failed;
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed ? 1 : 0;
}

int run(const Arguments& a) {
  auto found_cases = find_cases(a.cases);
  if (!found_cases.ok()) {
    std::fprintf(stderr, "%s\n", std::string(found_cases.status().message()).c_str());
    return 2;
  }
  const std::map<std::string, std::string> states = read_states(a.expected);
  const std::set<std::string> only = a.only.empty() ? std::set<std::string>() : read_names(a.only);
  std::vector<TestCase> cases;
  for (TestCase& c : *found_cases)
    if ((a.filter.empty() || c.name.find(a.filter) != std::string::npos) && (only.empty() || only.contains(c.name)) &&
        (a.kinds.empty() || of_kind(c.name, a.kinds)))
      cases.push_back(std::move(c));
  if (a.open_dims) return run_open(a, cases, states);
  const SessionOptions options = session_options(a);
  int passed = 0, failed = 0, skipped = 0;
  std::map<std::string, std::string> found;
  for (const TestCase& c : cases) {
    const Status s = run_case_files(c, options, nullptr, a.shadow);
    const auto state = states.find(c.name);
    const bool expect_pass = state == states.end() || state->second == "pass";
    found[c.name] = s.ok() ? "pass" : "open";
    if (s.ok() && expect_pass) {
      ++passed;
    } else if (!s.ok() && !expect_pass) {
      ++skipped;
      if (a.verbose) std::printf("open  %s: %s\n", c.name.c_str(), std::string(s.message()).c_str());
    } else {
      ++failed;
      std::printf("FAIL  %s: %s\n", c.name.c_str(),
                  s.ok() ? "passes, but is expected to be open" : std::string(s.message()).c_str());
    }
    std::fflush(stdout);
  }
  for (const auto& [name, state] : states)
    if (a.filter.empty() && a.kinds.empty() && only.empty() && !found.contains(name)) {
      ++failed;
      std::printf("FAIL  %s: listed, but there is no such case\n", name.c_str());
    }
  if (a.write) {
    std::ofstream out(a.expected);
    out << "# The expected state of every ONNX backend case, one a line: pass, or open (its operator or type is not "
           "there "
           "yet).\n# A case that is pass and fails is a regression; one that is open and passes belongs under pass: "
           "both "
           "fail the suite.\n";
    for (const auto& [name, state] : found) out << state << ' ' << name << '\n';
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  forethought::Arguments a;
  CLI::App app("Runs the ONNX backend cases against the list of expected states.");
  app.add_option("cases", a.cases, "folder of cases")->required();
  app.add_option("--expected", a.expected, "file of expected states")->required();
  app.add_option("--level", a.level, "disabled, basic, extended or all");
  app.add_option("--filter", a.filter, "only cases whose name contains this");
  app.add_option("--kinds", a.kinds, "only cases of these folders, separated by commas");
  app.add_option("--only", a.only, "only the cases that this file names, one a line");
  app.add_option("--threads", a.threads, "threads of each session");
  app.add_flag("--shadow", a.shadow, "watch all runs with a shadow (src/exec/shadow.h)");
  app.add_flag("--open-dims", a.open_dims, "plan for other sizes of the float inputs, and compare formulas with rules");
  app.add_flag("--write", a.write, "write the states found to the file of expected states");
  app.add_flag("--verbose", a.verbose, "print why open cases fail");
  CLI11_PARSE(app, argc, argv);
  return forethought::run(a);
}
