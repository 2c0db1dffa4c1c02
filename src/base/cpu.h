// What the processor can do, which instruction tier is in force, and how many cores this process may use.
#pragma once

#include <optional>
#include <string_view>

namespace forethought {

// The tiers of kernels. scalar: our reference kernels alone, no oneDNN. avx2: 256-bit vectors with FMA. avx512: F, BW,
// DQ, VL.
enum class Isa { scalar = 0, avx2 = 1, avx512 = 2 };
const char* name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

Isa detected_isa();  // the best tier this machine has
// The tier in force for the process: the knob FORETHOUGHT_ISA if the machine has that tier, else the detected one.
// Read once, before the first kernel is chosen; it also caps oneDNN and Highway (kernels/ applies the cap).
Isa active_isa();

// Cores this process may use: the least of the affinity mask and the cgroup's CPU quota (v1 or v2), at least 1.
int allowed_cores();

}  // namespace forethought
