// Which pages of streamed weights each step of a program reads, and when they may go.
#pragma once

#include "session/compiled_program.h"
#include "session/prepared.h"

namespace forethought {

// Writes them into the program's steps, with the windows. Nothing where weights are not streamed. A page that two steps
// in a row read stays for the second; a later reader has it read again. What a body reads comes and goes inside the
// step that runs it.
void plan_streaming(const PreparedGraph& graph, CompiledProgram& program);

}  // namespace forethought
