// Test cases on disk: a model, inputs, expected outputs; found, run and compared.
#pragma once

#include <string>
#include <vector>

#include "session/session.h"
#include "tools/support/compare.h"

namespace forethought {

// One model with its data sets. ONNX's layout (model.onnx, test_data_set_K/input_I.pb, output_J.pb), the light models'
// (light/NAME.onnx, NAME_output_0.pb, input arange(n)/n), or ours (model.onnx, case_K/input_I.npy, expected_I.npy,
// tolerance.json).
struct TestCase {
  std::string name;               // "node/test_abs"
  std::string model;              // path
  std::vector<std::string> sets;  // folders, or the expected file of a light model
  Tolerance tolerance;
};

// All cases at or below a folder, sorted by name; names are relative to it.
StatusOr<std::vector<TestCase>> find_cases(const std::string& folder);

// Runs all sets in a session that holds the case's model; ok if every one matches.
Status run_sets(Session& session, const TestCase& test);

// Loads and runs one; ok if every set matches. `sets_run` counts them. `shadow`: the runs are watched (exec/shadow.h),
// with free memory filled in two ways, and the outputs of both must have the same bits.
Status run_case_files(const TestCase& test, const SessionOptions& options, int* sets_run = nullptr,
                      bool shadow = false);

}  // namespace forethought
