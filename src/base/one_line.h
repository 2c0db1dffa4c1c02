// Names come from files and hold anything; what is said of them stays on its line.
#pragma once

#include <string>
#include <string_view>

namespace forethought {

// `text` with escapes for what ends a line or steers a terminal: "\n", "\t", "\x1b", "\u2028". Statuses made by
// base/status.h and contexts put before them go through it; a status with a line for each of several items is made of
// such lines.
std::string one_line(std::string_view text);

}  // namespace forethought
