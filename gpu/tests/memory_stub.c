// The rest of a driver, beside nccl_stub.c, that CubeCL's CUDA runtime needs without kernels. Device memory is host
// memory. Copies to the device arrive only when somebody waits for an event or reads, so a collective that does not
// wait runs too early. LIMIT is the maximum size of one allocation in bytes.
#include "nccl_stub.c"

#ifndef LIMIT
#define LIMIT (1ul << 40)
#endif

int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { *count = RANKS; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1ul << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 8 : attribute == 76 ? 0 : attribute == 10 ? 32 : 1024;
    return 0;
}
int cuGetErrorString(int code, const char **text) { *text = "the stub said so"; return 0; }
int cuGetErrorName(int code, const char **text) { *text = "CUDA_ERROR"; return 0; }
// Copies that have not arrived yet.
typedef struct Pending { struct Pending *next; void *to; size_t bytes; char from[]; } Pending;
static Pending *first, **last = &first;
static int arrive(void) {
    pthread_mutex_lock(&lock);
    while (first) {
        Pending *copy = first;
        memcpy(copy->to, copy->from, copy->bytes);
        first = copy->next;
        free(copy);
    }
    last = &first;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = malloc(1); return 0; }
int cuEventRecord(void *event, void *stream) { return !event; }
int cuEventSynchronize(void *event) { return arrive() || !event; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return !event; }
int cuMemAlloc_v2(void **memory, size_t bytes) {
    if (bytes > LIMIT) return 2;
    return posix_memalign(memory, 512, bytes) ? 2 : 0;
}
int cuMemAllocAsync(void **memory, size_t bytes, void *stream) { return cuMemAlloc_v2(memory, bytes); }
int cuMemFreeAsync(void *memory, void *stream) { free(memory); return 0; }
int cuMemFree_v2(void *memory) { free(memory); return 0; }
int cuMemAllocHost_v2(void **memory, size_t bytes) { return posix_memalign(memory, 512, bytes) ? 2 : 0; }
int cuMemFreeHost(void *memory) { free(memory); return 0; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    Pending *copy = malloc(sizeof(Pending) + bytes);
    *copy = (Pending){NULL, to, bytes};
    memcpy(copy->from, from, bytes);
    pthread_mutex_lock(&lock);
    *last = copy;
    last = &copy->next;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream) { arrive(); memcpy(to, from, bytes); return 0; }
