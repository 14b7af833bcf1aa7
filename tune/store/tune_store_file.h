/* SPDX-License-Identifier: Apache-2.0 */
/* The store's file: its path, its owner, and recovery if SQLite cannot read it. Private to the
 * component. */
#ifndef TESSERA_TUNE_STORE_TUNE_STORE_FILE_H
#define TESSERA_TUNE_STORE_TUNE_STORE_FILE_H

#include "tune/store/tune_store.h"

#include <sys/types.h>

enum { STORE_MARK = 0x54535475, STORE_PAGE = 16384 }; /* SQLite's application_id: "TSTu" */

typedef struct StoreFile {
    bool exists;
    bool is_file;  /* and no folder, device or pipe */
    bool is_other; /* no file, or one that others own or may write to */
    dev_t device;
    ino_t inode;
    off_t bytes;
} StoreFile;
StoreFile store_file_look(const char *path);
/* An empty one that only its owner may use, with the folders above it; false: errno says why. */
bool store_file_make(const char *path);

/* Rows that are whole, wherever they stand in the file. `ours`: it was a store, though it is
 * damaged. Not while the process has it open: closing it would drop SQLite's locks. */
bool store_file_salvage(Arena *arena, const char *path, TuneRecords *records, bool *ours);
/* Puts the file `with` in the place of `path`, which stays as PATH.damaged-N; returns that name, or
 * NULL. Its journal goes with it. */
const char *store_file_replace(Arena *arena, const char *path, const char *with);
/* Who opens, reads or writes the file of this name shares it; who puts another file in its place
 * has it alone. Else SQLite would take the new file's journal for one that a crash left to the old
 * file, and delete it. The lock is the folder's: it leaves nothing behind. -1: it cannot be locked,
 * which is no reason not to go on. */
typedef enum StoreSharing { STORE_SHARED, STORE_ALONE } StoreSharing;
int store_file_lock(Arena *arena, const char *path, StoreSharing sharing);
void store_file_unlock(int lock);

#endif
