/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16 bits, whatever the machine has: to nearest even where not said otherwise. */
#ifndef TESSERA_TESTS_EMULATOR_NUMBERS_H
#define TESSERA_TESTS_EMULATOR_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

float half_to_float(uint32_t bits);
uint32_t float_to_half(double value, bool toward_zero);
uint32_t float_to_bf16(float value);
float bits_to_float(uint32_t bits);
uint32_t float_to_bits(float value);

#endif
