/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes exactly n bytes of a file descriptor. Partial transfers and interruptions by
 * signals are retried. */
#include "support/fd_io.h"

#include <errno.h>
#include <unistd.h>

/* One call moved `moved` bytes; does it continue? */
static bool count(ssize_t moved, size_t *done)
{
    if (moved == 0) {
        errno = 0;
    }
    if (moved > 0) {
        *done += (size_t)moved;
    }
    return moved > 0 || (moved < 0 && errno == EINTR);
}

bool fd_read(int file, void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        if (!count(read(file, (char *)bytes + done, n - done), &done)) {
            return false;
        }
    }
    return true;
}

bool fd_read_first(int file, void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        if (!count(pread(file, (char *)bytes + done, n - done, (off_t)done), &done)) {
            return false;
        }
    }
    return true;
}

bool fd_write(int file, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        if (!count(write(file, (const char *)bytes + done, n - done), &done)) {
            return false;
        }
    }
    return true;
}
