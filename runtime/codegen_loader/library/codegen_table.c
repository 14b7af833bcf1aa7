/* SPDX-License-Identifier: Apache-2.0 */
/* The only symbols that libtessera-codegen exports. */
#include "runtime/codegen_loader/codegen_table.h"

extern const CodegenTable tessera_codegen;

__attribute__((visibility("default"))) const CodegenTable tessera_codegen = {
    .emit = codegen_emit,
    .ptxas_info = codegen_ptxas_info,
    .ptxas_relieve = codegen_ptxas_relieve,
    .bundle = codegen_bundle,
    .host = codegen_host,
    .host_cpu = codegen_host_cpu,
    .jit = codegen_jit,
    .jit_symbol = jit_symbol,
    .jit_free = jit_free,
};
