/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are built into the program (cmake/embed.cmake). */
#ifndef TESSERA_CLI_EMBEDDED_FILE_H
#define TESSERA_CLI_EMBEDDED_FILE_H

/* "03-sums/page.md" and its text. Tables end with a row of NULL. */
typedef struct EmbeddedFile {
    const char *name, *text;
} EmbeddedFile;

extern const EmbeddedFile lesson_files[];  /* lessons/, but for the wrong answers */
extern const EmbeddedFile project_files[]; /* templates/project/ */

#endif
