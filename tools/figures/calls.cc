// libfigure_calls.so, to be preloaded into a process: counts its calls for memory, and those of one library apart.
#include "memory/memory_calls_testing.h"

namespace {
forethought::MemoryCallRecorder recorder;

void write(const forethought::MemoryCalls& calls, int64_t out[4]) {
  out[0] = calls.allocations;
  out[1] = calls.frees;
  out[2] = calls.maps;
  out[3] = calls.unmaps;
}
}  // namespace

// `library`: how the file name of the library begins; the string must stay.
extern "C" void figure_calls_start(const char* library) {
  forethought::MemoryCallRecorder::watch(library);
  recorder.start();
}

// Stops; {allocations, frees, maps, unmaps} of the watched library, and of the libraries that Forethought works with
// (oneDNN, oneTBB, OpenMP) together.
extern "C" void figure_calls_stop(const char* library, int64_t own[4], int64_t helpers[4]) {
  recorder.stop();
  write(recorder.of(library), own);
  for (int i = 0; i < 4; ++i) helpers[i] = 0;
  for (const char* helper : {"libdnnl", "libtbb", "libgomp"}) {
    int64_t calls[4];
    write(recorder.of(helper), calls);
    for (int i = 0; i < 4; ++i) helpers[i] += calls[i];
  }
}
