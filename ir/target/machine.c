/* SPDX-License-Identifier: Apache-2.0 */
/* The cards of machines.def. */
#include "ir/target/machine.h"

#include <math.h>

#define MACHINE(id, name, target, title, match, source, ...)                                       \
    {name, target, title, match, source, __VA_ARGS__},
const Machine MACHINES[N_MACHINES] = {
#include "ir/target/machines.def"
};
#undef MACHINE

double machine_product(const Machine *machine, int bytes)
{
    const int rates[] = {[1] = machine->product8,
                         [2] = machine->product16,
                         [4] = machine->product32,
                         [8] = machine->product64};
    bytes = bytes < 1 ? 1 : bytes;
    int stated = bytes < (int)(sizeof rates / sizeof *rates) ? rates[bytes] : 0;
    return stated > 0 ? stated : 2.0 * machine->product16 / bytes;
}

double machine_memory_reached(const Machine *machine, double in_flight)
{
    double needed = (double)machine->memory_gbs / machine->num_sms * machine->memory_latency;
    double missing = in_flight > 0 ? needed / in_flight / 2 : 0;
    return 1 / sqrt(1 + missing * missing);
}

double machine_warp_share(const Machine *machine)
{
    return machine->warp_percent > 0 ? machine->warp_percent / 100.0 : 1;
}

double machine_flops16(const Machine *machine)
{
    return 1e6 * machine->matrix_clock * machine->num_sms * machine->product16;
}

double machine_flops32(const Machine *machine)
{
    return 2e6 * machine->clock * machine->num_sms * machine->lanes;
}
