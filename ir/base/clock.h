/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_BASE_CLOCK_H
#define TESSERA_BASE_CLOCK_H

/* Since some moment; it never goes back. */
double clock_seconds(void);

#endif
