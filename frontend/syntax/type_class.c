/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the classes of element types, and the types that they contain. */
#include "frontend/syntax/type_class.h"

#include <string.h>

static const char *const NAMES[N_TYPE_CLASSES] = {
    [CLASS_FLOAT] = "float", [CLASS_INT] = "int", [CLASS_NUMBER] = "number", [CLASS_ANY] = "any"};

const char *type_class_name(TypeClass type_class)
{
    return NAMES[type_class];
}

bool type_class_find(const char *name, TypeClass *type_class)
{
    for (TypeClass i = 0; i < N_TYPE_CLASSES; i++) {
        if (strcmp(NAMES[i], name) == 0) {
            *type_class = i;
            return true;
        }
    }
    return false;
}

bool type_class_holds(TypeClass type_class, DType dtype)
{
    switch (type_class) {
    case CLASS_FLOAT: return dtype_is_float(dtype);
    case CLASS_INT: return dtype_is_int(dtype);
    case CLASS_NUMBER: return dtype != DT_BOOL;
    default: return true;
    }
}
