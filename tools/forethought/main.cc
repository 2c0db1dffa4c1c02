// forethought: the command line tool.
#include <cstdio>
#include <exception>

#include "tools/forethought/command.h"

int main(int argc, char** argv) {
  using namespace forethought;
  CLI::App app("Runs ONNX models, and shows what the runtime decided about them.", "forethought");
  app.require_subcommand(1);
  app.set_version_flag("--version", FORETHOUGHT_VERSION);
  app.footer(footer({"info model.onnx", "run model.onnx --input x=image.npy --output-dir out",
                     "plan model.onnx --shape x=1,3,48,320 --node /conv1/Conv", "bench model.onnx --threads 2"}) +
             "\nforethought COMMAND --help tells the options of a command.\n"
             "Environment: FORETHOUGHT_ISA (scalar, avx2, avx512) and the other variables of docs/knobs.md.");
  int code = kOk;
  add_run(app, &code);
  add_info(app, &code);
  add_dump(app, &code);
  add_plan(app, &code);
  add_trace(app, &code);
  add_stages(app, &code);
  add_check(app, &code);
  add_bench(app, &code);
  if (argc > 1 && argv[1][0] != '-' &&
      app.get_subcommands([&](CLI::App* c) { return c->get_name() == argv[1]; }).empty()) {
    std::fprintf(stderr, "forethought: there is no command '%s'; forethought --help lists them\n", argv[1]);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    app.exit(e);
    return kUsage;
  } catch (const std::exception& e) {  // of a library: no more memory, a folder that cannot be read
    std::fprintf(stderr, "forethought: %s\n", e.what());
    return kBadInput;
  }
  if (std::fflush(stdout) != 0) {
    std::fprintf(stderr, "forethought: the output cannot be written\n");
    return kBadInput;
  }
  return code;
}
