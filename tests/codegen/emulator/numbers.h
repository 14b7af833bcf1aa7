/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of 16-bit floats on any machine; rounding is to nearest even unless stated otherwise.
 */
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
