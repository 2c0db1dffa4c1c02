// forethought dump: the graph at any stage, as text that reads back or as a model file.
#include <fmt/core.h>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "onnx/save/save.h"
#include "tools/forethought/command.h"

namespace forethought {
namespace {

struct DumpArguments {
  ModelArguments model;
  std::string stage = "layout", onnx;
  bool weights = false;
};

int run(const DumpArguments& a) {
  auto options = session_options(a.model);
  if (!options.ok()) return fail(options.status(), kUsage);
  const auto stage = stage_from_name(a.stage);
  if (!stage) return fail(invalid(absl::StrCat("there is no stage '", a.stage, "'")), kUsage);
  auto loaded = load_to_stage(a.model, *options, *stage);
  if (!loaded.ok()) return fail(loaded.status(), kBadInput);
  if (!a.onnx.empty()) {
    if (Status s = save_model(*loaded->graph, a.onnx); !s.ok()) return fail(s, kBadInput);
    return kOk;
  }
  TextOptions text;
  text.elide = !a.weights;
  fmt::print("{}", to_text(*loaded->graph, text));
  return kOk;
}

}  // namespace

void add_dump(CLI::App& app, int* code) {
  auto* a = new DumpArguments;
  CLI::App* c = app.add_subcommand("dump", "The graph at any stage, as text that reads back");
  add_model_options(*c, &a->model);
  c->add_option("--stage", a->stage, "import, infer, basic, partition, extended or layout")->capture_default_str();
  c->add_flag("--weights", a->weights,
              "Write long constants too; without them the text is short but cannot be read back");
  c->add_option("--onnx", a->onnx, "Save the graph as this .onnx file instead");
  c->footer(footer({"dump model.onnx --stage import", "dump model.onnx --stage basic --weights > basic.txt",
                    "run basic.txt", "dump model.onnx --onnx optimised.onnx"}));
  c->callback([a, code] { *code = run(*a); });
}

}  // namespace forethought
