/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the cards that the emulators stand for. */
#ifndef TESSERA_TESTS_CODEGEN_EMULATOR_CARDS_H
#define TESSERA_TESTS_CODEGEN_EMULATOR_CARDS_H

/* The default card of a target, so that emulated programs are those for that card. */
const char *card_title(const char *target);

#endif
