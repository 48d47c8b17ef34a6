// The driver and NCCL for ranks that are threads of one process, with host memory as device memory. The stub checks its
// arguments as strictly as the real libraries, and is as slow: calls stay in progress for a few polls, and so do
// streams. Macros make it fail: VERSION, ID_CODE, INIT_CODE, INIT_HANGS, ASYNC_CODE (after a collective has begun),
// STREAM_CODE, ABORT_HANGS, FINALIZE_HANGS.
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION 21805
#endif
#ifndef ID_CODE
#define ID_CODE 0
#endif
#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef ASYNC_CODE
#define ASYNC_CODE 0
#endif
#ifndef STREAM_CODE
#define STREAM_CODE 0
#endif
enum { LOOKS = 3, IN_PROGRESS = 7, NOT_READY = 600, RANKS = 8 };

int stub_aborted, stub_destroyed, stub_streams, stub_contexts;

// The driver.
typedef struct { long waits_for; int looks; } Stream;
static __thread void *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long generation;

static void count(int *counter, int by) { __sync_fetch_and_add(counter, by); }
int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGet(int *device, int index) { *device = 40 + index; return index < RANKS ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(size_t)(1000 + device); count(&stub_contexts, 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { count(&stub_contexts, -1); return device < 40; }
int cuCtxPushCurrent_v2(void *context) { if (current) return 1; current = context; return 0; }
int cuCtxPopCurrent_v2(void **context) { *context = current; current = NULL; return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = calloc(1, sizeof(Stream)); count(&stub_streams, 1); return current && flags == 1 ? 0 : 1; }
int cuStreamDestroy_v2(void *stream) { free(stream); count(&stub_streams, -1); return 0; }
int cuStreamQuery(void *pointer) {
    Stream *stream = pointer;
    if (STREAM_CODE) return STREAM_CODE;
    pthread_mutex_lock(&lock);
    int ready = generation >= stream->waits_for && ++stream->looks > LOOKS;
    pthread_mutex_unlock(&lock);
    return ready ? 0 : NOT_READY;
}

// NCCL.
typedef struct { char bytes[128]; } Id;
typedef struct { size_t size; unsigned magic, version; int blocking, cga, min, max; const char *net; int split, traffic; } Config;
typedef struct { int rank, ranks, looks, began, finalizing; } Comm;
static float *buffers[RANKS];
static int arrived, undefined = -2147483647 - 1;

int ncclGetVersion(int *version) { *version = VERSION; return 0; }
const char *ncclGetErrorString(int code) { return code == 6 ? "remote process exited" : code == 4 ? "invalid argument" : "some error"; }
const char *ncclGetLastError(void *comm) { return "the stub said so\n"; }
int ncclGetUniqueId(Id *id) { for (int i = 0; i < 128; i++) id->bytes[i] = 3 * i + 1; return ID_CODE; }

int ncclCommInitRankConfig(void **comm, int ranks, Id id, int rank, Config *config) {
    for (int i = 0; i < 128; i++) if (id.bytes[i] != (char)(3 * i + 1)) return 4;
    if (config->size != sizeof(Config) || config->magic != 0xcafebeef || config->version != 21800 || config->blocking) return 4;
    if (config->cga != undefined || config->min != undefined || config->max != undefined || config->net) return 4;
    if (config->split != undefined || config->traffic != undefined) return 4;
    if (!current || rank < 0 || rank >= ranks || ranks > RANKS) return 4;
    Comm *made = calloc(1, sizeof(Comm));
    made->rank = rank;
    made->ranks = ranks;
    *comm = made;
    return INIT_CODE ? INIT_CODE : IN_PROGRESS;
}

int ncclCommGetAsyncError(void *pointer, int *state) {
    Comm *comm = pointer;
#ifdef INIT_HANGS
    *state = IN_PROGRESS;
    return 0;
#endif
#ifdef FINALIZE_HANGS
    if (comm->finalizing) { *state = IN_PROGRESS; return 0; }
#endif
    *state = comm->began && ASYNC_CODE ? ASYNC_CODE : ++comm->looks > LOOKS ? 0 : IN_PROGRESS;
    return 0;
}

// The last rank to join does the work of all; the streams of the others wait for it.
static int collective(float *send, float *receive, size_t length, int type, int root, Comm *comm, Stream *stream) {
    if (send != receive || type != 7 || !current || comm->looks <= LOOKS) return 4;
    pthread_mutex_lock(&lock);
    comm->looks = stream->looks = 0;
    comm->began = 1;
    stream->waits_for = generation + 1;
    buffers[comm->rank] = send;
    if (++arrived == comm->ranks) {
        for (size_t i = 0; i < length; i++) {
            float value = 0;
            if (root < 0) for (int rank = 0; rank < comm->ranks; rank++) value += buffers[rank][i];
            else value = buffers[root][i];
            for (int rank = 0; rank < comm->ranks; rank++) buffers[rank][i] = value;
        }
        arrived = 0;
        generation++;
    }
    pthread_mutex_unlock(&lock);
    return IN_PROGRESS;
}
int ncclAllReduce(void *send, void *receive, size_t length, int type, int op, void *comm, void *stream) {
    return op ? 4 : collective(send, receive, length, type, -1, comm, stream);
}
int ncclBroadcast(void *send, void *receive, size_t length, int type, int root, void *comm, void *stream) {
    return collective(send, receive, length, type, root, comm, stream);
}

int ncclCommFinalize(void *pointer) { Comm *comm = pointer; comm->looks = 0; comm->finalizing = 1; return IN_PROGRESS; }
int ncclCommDestroy(void *pointer) { Comm *comm = pointer; count(&stub_destroyed, 1); free(comm); return 0; }
int ncclCommAbort(void *comm) {
    count(&stub_aborted, 1);
#ifdef ABORT_HANGS
    for (;;) pause();
#endif
    free(comm);
    return 0;
}
