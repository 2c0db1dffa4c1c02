// What people and programs see of a compiled program: the plan with shapes and kernels, as text, JSON and a page.
#pragma once

#include <string>
#include <vector>

#include "plan/report.h"
#include "session/compile.h"

namespace forethought {

// The nodes of the model's file that a step stands for.
std::vector<std::string> origin_of(const PreparedGraph& graph, const CompiledProgram& program, size_t step);
// The step of a node, by its name or by that of a node of the file that it stands for; kNoId if there is none.
StepNo find_step(const PreparedGraph& graph, const CompiledProgram& program, std::string_view name);

std::string plan_text(const PreparedGraph& graph, const CompiledProgram& program, ReportScope scope = {});

// What to_json() tells, with "dtype" and "dims" of each value (null where only a run tells), "strides" of those
// that are strided views, "kernels" of the steps, and "bodies": {step, body, name, plan} of what is planned inside a
// step. indent −1: on one line.
std::string plan_json(const PreparedGraph& graph, const CompiledProgram& program, ReportScope scope = {},
                      int indent = -1);

// One self-contained page that shows the plan which `json` (of plan_json, of everything) holds.
std::string plan_page(std::string_view title, std::string_view json);

}  // namespace forethought
