// What the caches of a session counted, under names that are the same in C++, Python and the command.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "session/session.h"

namespace forethought {

// Plans kept for shapes that came, and instances of kernels made for shapes. In the order in which they are shown.
std::vector<std::pair<std::string_view, int64_t>> counts(const SessionSummary& summary);

}  // namespace forethought
