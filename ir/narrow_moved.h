/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_IR_NARROW_MOVED_H
#define TESSERA_IR_NARROW_MOVED_H

#include "ir/ir.h"

/* Rounds the elements before they are gathered from a computed array, where `cast`, an op of the
 * tensor level that is removed then, rounds what was gathered. False: it is no such op. */
bool narrow_moved(Func *func, Op *cast);

#endif
