// The generated table behind schema.h.
#pragma once

#include "graph/schema/schema.h"

namespace forethought::schema_table {

extern const OpSchema kSchemas[];
extern const size_t kSchemaCount;

}  // namespace forethought::schema_table
