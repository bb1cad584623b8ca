/* Records up to which size each append-only file is on the disk: preloaded into an engine (LD_PRELOAD).
 *
 * A successful fsync or fdatasync makes durable what was in the file when it began. The size is written to a file named
 * by the inode, in the folder FAULTS_SYNCED. FAULTS_SYNC_DELAY_US makes each sync slow, as a real disk does, so that
 * a kill often comes between a write and its sync. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_append_only(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 4) return 0;
    path[length] = 0;
    return strstr(path, "/appendonlydir/") && strcmp(path + length - 4, ".aof") == 0;
}

/* Raise the recorded size, or lower it if the file was cut. */
static void record(const struct stat *file, uint64_t size, int is_cut) {
    const char *folder = getenv("FAULTS_SYNCED");
    char path[4096];
    uint64_t known = 0;
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%llu", folder, (unsigned long long)file->st_ino);
    pthread_mutex_lock(&lock);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (pread(fd, &known, sizeof known, 0) != sizeof known) known = 0;
        if (is_cut ? size < known : size > known)
            if (pwrite(fd, &size, sizeof size, 0) != sizeof size) abort();
        close(fd);
    }
    pthread_mutex_unlock(&lock);
}

static int synced(const char *name, int fd) {
    int (*call)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat file;
    int is_tracked = is_append_only(fd) && fstat(fd, &file) == 0;
    const char *delay_us = getenv("FAULTS_SYNC_DELAY_US");
    if (is_tracked && delay_us) usleep((useconds_t)atoi(delay_us));
    int answer = call(fd);
    if (is_tracked && answer == 0) record(&file, (uint64_t)file.st_size, 0);
    return answer;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }

static int cut(const char *name, int fd, off_t size) {
    int (*call)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, name);
    struct stat file;
    int is_tracked = is_append_only(fd) && fstat(fd, &file) == 0;
    int answer = call(fd, size);
    if (is_tracked && answer == 0) record(&file, (uint64_t)size, 1);
    return answer;
}

static int cut_path(const char *name, const char *path, off_t size) {
    int (*call)(const char *, off_t) = (int (*)(const char *, off_t))dlsym(RTLD_NEXT, name);
    struct stat file;
    int is_known = stat(path, &file) == 0;
    int answer = call(path, size);
    if (is_known && answer == 0) record(&file, (uint64_t)size, 1);
    return answer;
}

int ftruncate(int fd, off_t size) { return cut("ftruncate", fd, size); }
int ftruncate64(int fd, off_t size) { return cut("ftruncate64", fd, size); }
int truncate(const char *path, off_t size) { return cut_path("truncate", path, size); }
int truncate64(const char *path, off_t size) { return cut_path("truncate64", path, size); }
