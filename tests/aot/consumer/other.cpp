/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the header of a bundle as C++. */
#include "my_kernels.h"

extern "C" int from_cpp(TesseraDevice *device, const void *x, void *y);

int from_cpp(TesseraDevice *device, const void *x, void *y)
{
    TesseraLaunch *launch = nullptr;
    if (my_kernels_join_prepare(device, x, y, 1, 1, &launch) != TESSERA_OK) {
        return 1;
    }
    TesseraStatus status = tessera_launch(launch, nullptr);
    tessera_launch_free(launch);
    return status != TESSERA_OK;
}
