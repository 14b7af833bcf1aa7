/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a terminal, which WASI does not tell. */
#ifndef TESSERA_PLAYGROUND_WASI_SYS_IOCTL_H
#define TESSERA_PLAYGROUND_WASI_SYS_IOCTL_H

#include_next <sys/ioctl.h>

#define TIOCGWINSZ 0

struct winsize {
    unsigned short ws_row, ws_col, ws_xpixel, ws_ypixel;
};

#endif
