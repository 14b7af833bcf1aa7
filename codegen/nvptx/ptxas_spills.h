/* SPDX-License-Identifier: Apache-2.0 */
/* The second plan of launches whose threads spill registers. */
#ifndef TESSERA_CODEGEN_NVPTX_PTXAS_SPILLS_H
#define TESSERA_CODEGEN_NVPTX_PTXAS_SPILLS_H

#include "codegen/codegen.h"

/* What `ptxas -v` said of the function's code. True if launches that spill have fewer blocks of a
 * multiprocessor now, and their threads more registers; or, when it is asked again, as many as
 * before, because that did not help: the code is to be made again. */
bool ptxas_relieve(Func *func, PtxasRelief *relief, const char *info);

#endif
