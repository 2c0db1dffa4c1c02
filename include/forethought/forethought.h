// Forethought, an inference runtime for ONNX models: everything public.
#pragma once

#include "forethought/log.h"
#include "forethought/session.h"
#include "forethought/status.h"
#include "forethought/value.h"
