// forethought: the command line tool.
#include "tools/forethought/command.h"

int main(int argc, char** argv) {
  using namespace forethought;
  CLI::App app("Runs ONNX models, and shows what the runtime decided about them.", "forethought");
  app.require_subcommand(1);
  app.set_version_flag("--version", FORETHOUGHT_VERSION);
  app.footer(
      "Exit codes: 0 all went well; 1 results differ from what was expected; 2 wrong use; 3 a model or input\n"
      "cannot be read or used; 4 a run failed.\n\n"
      "Examples:\n"
      "  forethought info model.onnx\n"
      "  forethought run model.onnx --input x=image.npy --output-dir out\n"
      "  forethought plan model.onnx --shape x=1,3,48,320 --value /conv1/Relu_output_0\n"
      "  forethought bench model.onnx --threads 2 --runs 50\n\n"
      "Environment: FORETHOUGHT_ISA (scalar, avx2, avx512) and the other variables of docs/knobs.md.");
  int code = kOk;
  add_run(app, &code);
  add_info(app, &code);
  add_dump(app, &code);
  add_plan(app, &code);
  add_stages(app, &code);
  add_check(app, &code);
  add_bench(app, &code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kUsage;
  }
  return code;
}
