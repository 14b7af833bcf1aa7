/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of element types, as in `where T: float`. */
#ifndef TESSERA_FRONTEND_SYNTAX_TYPE_CLASS_H
#define TESSERA_FRONTEND_SYNTAX_TYPE_CLASS_H

#include "ir/dtype.h"

typedef enum TypeClass {
    CLASS_FLOAT,
    CLASS_INT,
    CLASS_NUMBER,
    CLASS_ANY,
    N_TYPE_CLASSES
} TypeClass;

const char *type_class_name(TypeClass type_class);
/* False if no class has this name. */
bool type_class_find(const char *name, TypeClass *type_class);
/* True if the class contains the element type. */
bool type_class_holds(TypeClass type_class, DType dtype);

#endif
