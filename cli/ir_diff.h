/* SPDX-License-Identifier: Apache-2.0 */
/* What a pass has changed in the IR, as a difference of lines. */
#ifndef TESSERA_CLI_IR_DIFF_H
#define TESSERA_CLI_IR_DIFF_H

#include <stddef.h>

/* A TesseraDebug.write for --print-diff; `user` is the stream. Of IR that it is given, headed by
 * `; ---- after PASS ----`, it prints what differs from the one before; other text as it is. */
void ir_diff_write(void *user, const char *text, size_t n);

#endif
