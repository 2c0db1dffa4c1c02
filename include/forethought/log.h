// The version of the library, what it can run on, and how much it says on standard error.
#pragma once

#include <string>
#include <vector>

#include "forethought/export.h"

FORETHOUGHT_BEGIN_NAMESPACE

FORETHOUGHT_EXPORT const char* version();  // "0.1.0"
FORETHOUGHT_EXPORT std::vector<std::string> available_providers();

enum class LogSeverity { verbose = 0, info = 1, warning = 2, error = 3, fatal = 4 };
FORETHOUGHT_EXPORT void set_log_severity(LogSeverity least);
FORETHOUGHT_EXPORT LogSeverity log_severity();

FORETHOUGHT_END_NAMESPACE
