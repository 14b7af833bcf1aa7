/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read as a whole, and files that appear only when they are complete. */
#ifndef TESSERA_CLI_OUTPUT_FILES_H
#define TESSERA_CLI_OUTPUT_FILES_H

#include <stdio.h>
#include <tessera/tessera.h>

/* The whole of it, ended by a zero, to be freed; "-": standard input. */
int file_read(const char *path, char **text, size_t *n);

typedef struct OutFile {
    FILE *file;
    const char *path;
    char *temporary; /* NULL: written in place (a pipe, a device, standard output) */
} OutFile;
/* Nothing is seen under `path` before out_close succeeds; "-": standard output. */
int out_open(const char *path, OutFile *out);
int out_close(OutFile *out);
void out_cancel(OutFile *out);
int out_bytes(const char *path, const TesseraBytes *bytes);

/* Writes a rule for make, which says that `output` depends on the files of the program, into the
 * output's file that ends in .d (dependencies.c). */
int write_dependencies(const TesseraProgram *program, const char *output);

#endif
