/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes of complete byte ranges, despite partial transfers and signals. */
#ifndef TESSERA_SUPPORT_FD_IO_H
#define TESSERA_SUPPORT_FD_IO_H

#include <stdbool.h>
#include <stddef.h>

/* False: errno says why; 0: the file ends before. */
bool fd_read(int file, void *bytes, size_t n);
bool fd_write(int file, const void *bytes, size_t n);
/* From its beginning, wherever the file is read and written otherwise. */
bool fd_read_first(int file, void *bytes, size_t n);

#endif
