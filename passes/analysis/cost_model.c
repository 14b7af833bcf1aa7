/* SPDX-License-Identifier: Apache-2.0 */
/* Combines the cycles of resources that work at the same time, and of steps that depend on one
 * another, into the cycles of a loop, a tile and a launch. All cost models of the compiler are
 * built from these functions. */
#include "passes/analysis/cost_model.h"

#include <math.h>

/* The part of memory_bytes that launches reach which rewrite an operand: 2 bytes in 1.3 ps on the
 * H200 (docs/lab/products.md). What barriers, addresses and dependences add to instructions. */
static const double REPACK_MEMORY = 0.625, ARITHMETIC_OVERHEAD = 1.2;

double cost_overlap(const double *cycles, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double square = cycles[i] * cycles[i];
        sum += square * square;
    }
    return sqrt(sqrt(sum));
}

double cost_norm(const double *cycles, int n, double exponent)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += pow(cycles[i], exponent);
    }
    return pow(sum, 1 / exponent);
}

double cost_overlap2(double a, double b)
{
    return cost_overlap((double[]){a, b}, 2);
}

double cost_resources(const StepCost *step)
{
    return cost_overlap(step->busy, N_COST_RESOURCES);
}

double cost_step(const StepCost *step)
{
    double streams = step->streams > 1 ? step->streams : 1;
    return fmax(cost_resources(step), step->recurrence / streams) + step->exposed;
}

double cost_tile(const TileCost *tile)
{
    return tile->steps * tile->step + tile->prologue + tile->epilogue;
}

int64_t cost_waves(int64_t tiles, int64_t places)
{
    return tiles > 0 ? (tiles - 1) / places + 1 : 0;
}

double cost_expected_waves(double tiles_per_place)
{
    return tiles_per_place > 1 ? tiles_per_place + 0.5 : 1;
}

double cost_memory(const Machine *machine, double bytes)
{
    return bytes / machine->memory_bytes;
}

double cost_busy(const Machine *machine, double blocks)
{
    double enough = machine->num_sms / 2.0;
    return blocks > 0 && blocks < enough ? blocks / enough : 1;
}

double cost_elements(const Machine *machine, double elements, double instructions)
{
    return elements * instructions / ((double)machine->lanes * machine->num_sms);
}

double cost_copy_each(const Machine *machine, double bytes)
{
    return cost_memory(machine, bytes) * machine->num_sms / REPACK_MEMORY;
}

double cost_arithmetic(double cycles)
{
    return ARITHMETIC_OVERHEAD * cycles;
}

double cost_compute_each(const Machine *machine, double instructions)
{
    return cost_arithmetic(instructions / machine->lanes);
}

double cost_launches(const Machine *machine, double launches)
{
    return launches * machine->host_cycles;
}
