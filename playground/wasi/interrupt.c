/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces cli/interrupt.c: there are no signals and no alarms. The page ends what takes too
 * long. */
#include "cli/interrupt.h"

void interrupts_begin(void)
{
}

void interrupts_hold(InterruptHold *hold)
{
    hold->before = 0;
}

void interrupts_release(const InterruptHold *hold)
{
    (void)hold;
}

void interrupts_remove(const char *path)
{
    (void)path;
}

void timeout_begin(const Options *options)
{
    (void)options;
}

void timeout_end(void)
{
}

void inputs_begin(const Options *options)
{
    (void)options;
}

void run_begin(const Options *options, bool own_code, const char *kernel, const char *where)
{
    (void)options, (void)own_code, (void)kernel, (void)where;
}

void run_begin_on(const Options *options, const char *kernel, const TesseraDevice *device)
{
    (void)options, (void)kernel, (void)device;
}

void run_end(void)
{
}
