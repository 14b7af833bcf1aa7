/* SPDX-License-Identifier: Apache-2.0 */
/* The program tessera-worker: it compiles one kernel for the process that started it, so that a
 * crash of the compiler does not end the caller (tessera_isolate in tessera.h). */
#include "runtime/worker/compile_worker.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    return argc == 2 ? tessera_worker(atoi(argv[1])) : 2;
}
