/* Loaded before the C library: the k-th call of one function fails, once armed. Calls are counted from then on. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, OPEN, MMAP, KINDS };

static const char *const names[KINDS] = {"write", "fsync", "rename", "open", "mmap"};
static atomic_long counts[KINDS];
static volatile int armed, failing = -1, code;
static volatile long which;

/* From now on calls are counted, and call k (from 1) of the function fails with the error; k = 0: none does. */
int chainfold_arm(const char *name, long k, int error) {
    for (int i = 0; i < KINDS; i++) {
        atomic_store(&counts[i], 0);
        if (!strcmp(names[i], name)) failing = i;
    }
    which = k, code = error, armed = 1;
    return failing;
}

long chainfold_count(void) { return failing < 0 ? 0 : atomic_load(&counts[failing]); }

static int fails(int kind) {
    if (!armed || kind != failing) return 0;
    if (atomic_fetch_add(&counts[kind], 1) + 1 != which) return 0;
    errno = code;
    return 1;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int file, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return file > 2 && fails(WRITE) ? -1 : real(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    return fails(WRITE) ? -1 : real(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    return fails(WRITE) ? -1 : real(file, data, size, at);
}

int fsync(int file) {
    REAL(int, "fsync", int);
    return fails(FSYNC) ? -1 : real(file);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return fails(RENAME) ? -1 : real(from, to);
}

#define OPENS() \
    int mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, int); \
        va_end(rest); \
    } \
    if (fails(OPEN)) return -1;

int open(const char *path, int flags, ...) {
    OPENS()
    REAL(int, "open", const char *, int, ...);
    return real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    OPENS()
    REAL(int, "open64", const char *, int, ...);
    return real(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    OPENS()
    REAL(int, "openat", int, const char *, int, ...);
    return real(folder, path, flags, mode);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    REAL(void *, "mmap", void *, size_t, int, int, int, off_t);
    return fails(MMAP) ? MAP_FAILED : real(at, size, protection, flags, file, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    REAL(void *, "mmap64", void *, size_t, int, int, int, off_t);
    return fails(MMAP) ? MAP_FAILED : real(at, size, protection, flags, file, offset);
}
