// DLPack: values go to other array libraries and come from them with no copy. The structs are those of dlpack.h, which
// a program that looks inside them includes for itself.
#pragma once

#include "forethought/value.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

FORETHOUGHT_BEGIN_NAMESPACE

// A struct over the tensor's memory, which it keeps until its deleter is called: give it away, or call its deleter. The
// form without a version cannot say that memory is read-only, and is refused for such values.
FORETHOUGHT_EXPORT Result<DLManagedTensorVersioned*> to_dlpack(const Value& value);
FORETHOUGHT_EXPORT Result<DLManagedTensor*> to_unversioned_dlpack(const Value& value);

// A tensor over the struct's memory; over one copy (Value::copied_bytes) where that has strides or is not aligned. The
// struct is the value's from then on: its deleter is called once, on whatever thread, when nobody uses the memory any
// more. After an error it is still the caller's. Memory that the CPU cannot read is an error.
FORETHOUGHT_EXPORT Result<Value> from_dlpack(DLManagedTensorVersioned* tensor);
FORETHOUGHT_EXPORT Result<Value> from_dlpack(DLManagedTensor* tensor);

FORETHOUGHT_END_NAMESPACE
