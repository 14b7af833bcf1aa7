/* SPDX-License-Identifier: Apache-2.0 */
/* A language server: answers the messages of an editor (Language Server Protocol 3.17). */
#ifndef TESSERA_LSP_LSP_H
#define TESSERA_LSP_LSP_H

/* Settings that the client may change; NULL: none. They are what the options of the command line
 * of the same names are: "sm_90a", "M=4096,N=1024", "T=bf16". */
typedef struct LspSettings {
    const char *target, *sizes, *sets;
} LspSettings;

/* Serves until the client says `exit` or closes. Returns the exit status that the protocol asks
 * for: 0 after `shutdown`. */
int lsp_serve(int in, int out, const LspSettings *settings);

#endif
