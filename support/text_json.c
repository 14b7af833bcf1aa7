/* SPDX-License-Identifier: Apache-2.0 */
/* Quotes text as a JSON string (RFC 8259). Control characters are escaped and invalid UTF-8
 * becomes U+FFFD. */
#include "support/text.h"
#include "support/unicode.h"

void text_json(Text *out, const char *text, size_t n)
{
    text_char(out, '"');
    for (size_t at = 0; at < n;) {
        Char c = char_at(text + at, n - at);
        if (c.code == '"' || c.code == '\\') {
            text_printf(out, "\\%c", (char)c.code);
        } else if (c.code == '\n') {
            text_add(out, "\\n");
        } else if (c.code < ' ' || c.code == 0x7F) {
            text_printf(out, "\\u%04x", (unsigned)c.code);
        } else if (c.code == 0xFFFD) {
            text_add(out, "\xEF\xBF\xBD");
        } else {
            text_add_n(out, text + at, (size_t)c.bytes);
        }
        at += (size_t)c.bytes;
    }
    text_char(out, '"');
}
