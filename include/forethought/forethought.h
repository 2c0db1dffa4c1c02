// Forethought, an inference runtime for ONNX models: everything public.
#pragma once

#include "forethought/async.h"
#include "forethought/dlpack.h"
#include "forethought/lease.h"
#include "forethought/log.h"
#include "forethought/memory.h"
#include "forethought/session.h"
#include "forethought/status.h"
#include "forethought/value.h"
