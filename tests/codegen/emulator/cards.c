/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/codegen/emulator/cards.h"

#include <stddef.h>
#include <string.h>

#define MACHINE(id, name, target, title, ...) {target, title},
static const struct {
    const char *target, *title;
} CARDS[] = {
#include "ir/target/machines.def"
};
#undef MACHINE

const char *card_title(const char *target)
{
    for (size_t i = 0; i < sizeof CARDS / sizeof *CARDS; i++) {
        if (strcmp(CARDS[i].target, target) == 0) {
            return CARDS[i].title; /* a target's first card is its default one */
        }
    }
    return "GPU";
}
