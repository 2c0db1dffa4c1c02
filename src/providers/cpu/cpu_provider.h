// The CPU provider: runs whatever ops/ has a kernel for.
#pragma once

#include "partition/provider.h"

namespace forethought {

inline constexpr std::string_view kCpuProvider = "CPUExecutionProvider";

std::unique_ptr<Provider> make_cpu_provider();
// Puts the CPU into the process's registry; further calls do nothing.
void register_cpu_provider();

}  // namespace forethought
