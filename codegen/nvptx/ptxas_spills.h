/* SPDX-License-Identifier: Apache-2.0 */
/* The second plan of launches whose threads spill registers. */
#ifndef TESSERA_CODEGEN_NVPTX_PTXAS_SPILLS_H
#define TESSERA_CODEGEN_NVPTX_PTXAS_SPILLS_H

#include "ir/ir.h"

/* What `ptxas -v` said of the function's code. True if launches that spill have fewer blocks of a
 * multiprocessor now, and their threads more registers: the code is to be made again, once. */
bool ptxas_relieve(Func *func, const char *info);

#endif
