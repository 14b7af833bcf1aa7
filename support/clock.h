/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks by which the compiler times itself: CPU time of a thread, and elapsed time. */
#ifndef TESSERA_SUPPORT_CLOCK_H
#define TESSERA_SUPPORT_CLOCK_H

/* That this thread has computed for: what other programs do meanwhile does not count. */
double clock_cpu_seconds(void);
/* Since some moment, for differences: what one waits. */
double clock_seconds(void);

#endif
