/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the properties of all characters as runs of equal ones, for playground/wasi/unicode.c:
 * utf8proc exists for the machine that builds, not for WebAssembly. */
#include "support/unicode.h"

#include <stdio.h>

int main(void)
{
    enum { LAST = 0x10FFFF };
    int before = -1;
    printf("/* Made by playground/unicode_table.c. */\n");
    for (uint32_t code = 0; code <= LAST; code++) {
        int now = char_width(code) << 1 | char_is_control(code);
        if (now != before) {
            printf("{0x%X, %d, %d},\n", (unsigned)code, now >> 1, now & 1);
        }
        before = now;
    }
    return 0;
}
