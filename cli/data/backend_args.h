/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of a kernel's arguments for the backends that are compared. */
#ifndef TESSERA_CLI_DATA_BACKEND_ARGS_H
#define TESSERA_CLI_DATA_BACKEND_ARGS_H

#include "cli/data/array_args.h"

/* True if the kernel writes the array. */
bool array_is_result(const Array *array);
/* Fills the array, at its strides, with new random values. */
void array_randomize(Array *array, uint64_t seed);

/* Allocates device memory for each tensor and copies the tensors there; false: the context has the
 * error. */
bool args_upload(TesseraDevice *device, const Arrays *arrays, TesseraArg *args);
void args_release(TesseraDevice *device, const Arrays *arrays, TesseraArg *args);
/* The elements of a result in row-major order, to be freed; NULL: the context has the error. */
void *args_download(TesseraDevice *device, const Array *array, const TesseraArg *arg);

/* Arguments for the interpreter. Results have their own memory and space for bounds; with `as_f64`
 * all tensors of floats are row-major f64 copies, without bounds. */
TesseraArg *args_for_interpreter(const Arrays *arrays, bool as_f64);
void args_free(const Arrays *arrays, TesseraArg *args);

#endif
