/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of POSIX that WASI lacks. Files are the page's, in memory and of nobody: they have no
 * modes, no owner and no links. */
#include <posix.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uid_t geteuid(void)
{
    return 0;
}

mode_t umask(mode_t mask)
{
    return mask;
}

int fchmod(int file, mode_t mode)
{
    (void)file, (void)mode;
    return 0;
}

/* Programs are run once, so counting gives names that are new. */
int mkstemps(char *path, int suffix)
{
    enum { LETTERS = 6 };
    static unsigned count;
    size_t n = strlen(path), end = (size_t)suffix;
    if (suffix < 0 || n < end + LETTERS) {
        errno = EINVAL;
        return -1;
    }
    char number[LETTERS + 1];
    snprintf(number, sizeof number, "%06u", count++ % 1000000);
    memcpy(path + n - end - LETTERS, number, LETTERS);
    return open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
}

int mkstemp(char *path)
{
    return mkstemps(path, 0);
}

char *realpath(const char *path, char *real)
{
    return real ? strcpy(real, path) : strdup(path);
}

int sysinfo(struct sysinfo *info)
{
    (void)info;
    errno = ENOSYS;
    return -1;
}
