/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives. Private to the component. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_DERIVED_H
#define TESSERA_FRONTEND_LOWER_LOWER_DERIVED_H

#include "frontend/lower/lower.h"

#include "passes/derive/derive.h"

/* What the sweep asks for calls that were noted. */
DeriveRules derive_rules(Lower *l);

#endif
