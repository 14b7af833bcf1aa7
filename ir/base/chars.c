/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, and how wide a terminal shows it. */
#include "ir/base/chars.h"

Char char_at(const char *text, size_t n)
{
    const unsigned char *at = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int more = at[0] < 0x80 ? 0 : at[0] >= 0xF0 ? 3 : at[0] >= 0xE0 ? 2 : at[0] >= 0xC0 ? 1 : -1;
    if (more == 0) {
        return (Char){at[0], 1};
    }
    if (more < 0 || (size_t)more >= n || at[0] >= 0xF8) {
        return (Char){0xFFFD, 1};
    }
    uint32_t code = at[0] & (0x3Fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return (Char){0xFFFD, 1};
        }
        code = code << 6 | (at[i] & 0x3Fu);
    }
    bool valid = code >= least[more + 1] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    return valid ? (Char){code, more + 1} : (Char){0xFFFD, 1};
}

static bool within(uint32_t code, const uint32_t (*ranges)[2], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (code >= ranges[i][0] && code <= ranges[i][1]) {
            return true;
        }
    }
    return false;
}

/* Invisible, or able to reorder what is around it. */
bool char_is_control(uint32_t code)
{
    static const uint32_t ranges[][2] = {{0, 0x1F},        {0x7F, 0x9F},     {0x200E, 0x200F},
                                         {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFFF9, 0xFFFB}};
    return within(code, ranges, sizeof ranges / sizeof *ranges);
}

/* Columns of the terminal: combining marks take none, East Asian wide characters and emoji two. */
int char_width(uint32_t code)
{
    static const uint32_t none[][2] = {
        {0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},   {0x64B, 0x65F},
        {0x200B, 0x200D}, {0x20D0, 0x20F0}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xE0100, 0xE01EF}};
    static const uint32_t wide[][2] = {
        {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xAC00, 0xD7A3},
        {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
        {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    if (code == '\t') {
        return TAB_WIDTH;
    }
    if (code < 0x300 || char_is_control(code)) {
        return 1;
    }
    if (within(code, none, sizeof none / sizeof *none)) {
        return 0;
    }
    return within(code, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}
