/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of Unicode characters, from utf8proc. */
#include "support/unicode.h"

#include <utf8proc.h>

Char char_at(const char *text, size_t n)
{
    utf8proc_int32_t code;
    utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text,
                                              (utf8proc_ssize_t)(n < 4 ? n : 4), &code);
    return bytes > 0 ? (Char){(uint32_t)code, (int)bytes} : (Char){0xFFFD, 1};
}

bool char_is_control(uint32_t code)
{
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN: /* it is not known how it looks */
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return true;
    default: return false;
    }
}

int char_width(uint32_t code)
{
    bool replaced = code == 0xFFFD || char_is_control(code);
    if (code == '\t') {
        return TAB_WIDTH;
    }
    return replaced ? 1 : utf8proc_charwidth((utf8proc_int32_t)code);
}
