/* SPDX-License-Identifier: Apache-2.0 */
/* What this compiler needs of POSIX and WASI lacks: temporary files, users, locks. Included before
 * all else; ../posix.c has the functions. */
#ifndef TESSERA_PLAYGROUND_WASI_POSIX_H
#define TESSERA_PLAYGROUND_WASI_POSIX_H

#include <sys/types.h>

enum { F_WRLCK = 1, F_UNLCK = 2, F_OFD_SETLK = 37 };

struct sysinfo;

uid_t geteuid(void);
mode_t umask(mode_t mask);
int fchmod(int file, mode_t mode);
int mkstemp(char *path);
int mkstemps(char *path, int suffix);
char *realpath(const char *path, char *real);
int sysinfo(struct sysinfo *info);

#endif
