// DLPack capsules: how tensors go to other array libraries and come from them, with no copy.
#pragma once

#include "convert.h"

namespace forethought::python {

// A capsule over the tensor's memory, which it keeps: "dltensor", or "dltensor_versioned" where `max_version` (None or
// a pair) allows. `dl_device` None or the CPU; `copy` None, False or True.
nb::object to_dlpack(const HeldValue& self, nb::handle max_version, nb::handle dl_device, nb::handle copy);

// `source` is a capsule, or an object with __dlpack__, which is asked for one. A capsule can be used once.
// What has to be copied goes where `feeding` says.
HeldValue from_dlpack(nb::handle source, const Feeding& feeding);

}  // namespace forethought::python
