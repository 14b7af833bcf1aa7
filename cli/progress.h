/* SPDX-License-Identifier: Apache-2.0 */
/* One line on the terminal that says how far a long task is. */
#ifndef TESSERA_CLI_PROGRESS_H
#define TESSERA_CLI_PROGRESS_H

#include <stddef.h>

/* `what 12/34, 3.1/s, 7.1 s left` on standard error, if that is a terminal and the task has taken
 * a second; `began` by clock_seconds. After the last one the line is removed. */
void progress_show(const char *what, size_t done, size_t all, double began);
/* ", 3.1/s", or "" in the first second. */
void progress_rate(char *out, size_t n, size_t done, double seconds);

#endif
