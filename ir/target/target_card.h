/* SPDX-License-Identifier: Apache-2.0 */
/* Targets with the card that a name or a driver states. */
#ifndef TESSERA_IR_TARGET_TARGET_CARD_H
#define TESSERA_IR_TARGET_TARGET_CARD_H

#include "ir/target/target.h"
#include "support/arena.h"

typedef struct Target Target;

/* The target that `name` stands for: that of a row, `TARGET@CARD`, or `TARGET@SMSxMHZ`. NULL if
 * there is none; `nearest` is then what is known of it: the target, if only its card is unknown. */
const Target *target_on_card(Arena *arena, const char *name, const Target **nearest);
/* How target_on_card would be asked for it: "sm_90a", "sm_90a@h100". */
const char *target_spelling(const Target *target);
/* The target for a device, as its driver describes it: the card whose title it has, or with whose
 * name and multiprocessors it agrees; if none does, the default card with its multiprocessors and
 * clock. `num_sms` and
 * `clock` 0: not known. */
const Target *target_of_device(Arena *arena, const Target *target, const char *device, int num_sms,
                               int clock);
/* The names of a target's cards, as a list for messages. */
const char *target_cards(Arena *arena, const Target *target);

#endif
