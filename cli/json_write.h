/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that read and write JSON. */
#ifndef TESSERA_CLI_JSON_WRITE_H
#define TESSERA_CLI_JSON_WRITE_H

#include <stdbool.h>
#include <stdio.h>

void json_string(FILE *to, const char *text);
void json_number(FILE *to, double number);
/* A text; a number, with text ""; the end of an object, with text NULL. `path`: its keys, with dots
 * between. */
typedef void JsonEach(void *user, const char *path, const char *text, double number);
/* One value after the other; false when it is no JSON (json_read.c). */
bool json_read(const char *text, JsonEach *each, void *user);

#endif
