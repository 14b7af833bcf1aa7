/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of the runtime are linked with the code generator instead of opening its library, so
 * that coverage and sanitizers see it: they give its table to the loader before the first test. */
#include "runtime/codegen_loader/codegen_loader.h"

extern const CodegenTable tessera_codegen; /* runtime/codegen_loader/library/codegen_table.c */

const char codegen_build_id[] = "";

__attribute__((constructor)) static void use_linked_codegen(void)
{
    codegen_use(&tessera_codegen);
}
