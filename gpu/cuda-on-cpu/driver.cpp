// A stand-in for libcuda, NVIDIA's driver: GPUs whose memory is host memory, and whose kernels compiler.cpp has
// compiled for the CPU.
//
// Each stream is a thread, so work runs out of order unless something orders it. Reads of memory before it is written,
// or after it was given to another owner, can therefore show in results. Accesses beyond a kernel's arrays are not
// detected.
//
// CUDA_ON_CPU_GPUS: the number of GPUs. Default: 1.
// CUDA_ON_CPU_ARCH: their compute capability, without the dot. Default: 80, for 8.0.
// CUDA_ON_CPU_MEMORY: the bytes of memory of each GPU. Default: 2 GiB. Larger requests are out of memory.
// CUDA_ON_CPU_LAUNCHES: the number, from 1, of the kernel launch that fails, with all later work. Default: none.
// CUDA_ON_CPU_DELAY: the maximum random delay before each step of a stream, in microseconds. Default: 0.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>

namespace {

enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
};

long setting(const char *name, long otherwise) {
    const char *text = std::getenv(name);
    return text && *text ? std::atol(text) : otherwise;
}

int gpus() { return static_cast<int>(setting("CUDA_ON_CPU_GPUS", 1)); }
size_t memory_bytes() { return setting("CUDA_ON_CPU_MEMORY", 2l << 30); }

// A recording of an event.
struct Mark {
    std::mutex lock;
    std::condition_variable reached;
    bool done = false;

    void set() {
        std::lock_guard<std::mutex> guard(lock);
        done = true;
        reached.notify_all();
    }
    void wait() {
        std::unique_lock<std::mutex> guard(lock);
        reached.wait(guard, [&] { return done; });
    }
    bool is_set() {
        std::lock_guard<std::mutex> guard(lock);
        return done;
    }
};

struct Event {
    std::mutex lock;
    // Null before the first recording: there is nothing to wait for.
    std::shared_ptr<Mark> mark;

    std::shared_ptr<Mark> latest() {
        std::lock_guard<std::mutex> guard(lock);
        return mark;
    }
};

// The first failure of a kernel. It stays for all later calls, as on a GPU.
std::atomic<int> sticky{SUCCESS};

class Stream {
  public:
    Stream() : delay(setting("CUDA_ON_CPU_DELAY", 0)), worker([this] { work(); }) {
        worker.detach();
        std::lock_guard<std::mutex> guard(all().first);
        all().second.push_back(this);
    }
    static void wait_for_all() {
        std::vector<std::shared_ptr<Mark>> marks;
        {
            std::lock_guard<std::mutex> guard(all().first);
            for (Stream *stream : all().second)
                marks.push_back(stream->record());
        }
        for (auto &mark : marks)
            mark->wait();
    }

    void submit(std::function<void()> step) {
        std::lock_guard<std::mutex> guard(lock);
        steps.push_back(std::move(step));
        unfinished++;
        arrived.notify_one();
    }
    bool is_idle() {
        std::lock_guard<std::mutex> guard(lock);
        return unfinished == 0;
    }
    std::shared_ptr<Mark> record() {
        auto mark = std::make_shared<Mark>();
        submit([mark] { mark->set(); });
        return mark;
    }

  private:
    static std::pair<std::mutex, std::vector<Stream *>> &all() {
        static auto *all = new std::pair<std::mutex, std::vector<Stream *>>;
        return *all;
    }

    // Streams live as long as the process, because their owner may destroy one with work left.
    void work() {
        std::minstd_rand random(std::random_device{}());
        for (;;) {
            std::function<void()> step;
            {
                std::unique_lock<std::mutex> guard(lock);
                arrived.wait(guard, [&] { return !steps.empty(); });
                step = std::move(steps.front());
                steps.pop_front();
            }
            if (delay > 0)
                std::this_thread::sleep_for(std::chrono::microseconds(random() % (delay + 1)));
            step();
            std::lock_guard<std::mutex> guard(lock);
            unfinished--;
        }
    }

    std::mutex lock;
    std::condition_variable arrived;
    std::deque<std::function<void()>> steps;
    size_t unfinished = 0;
    long delay;
    std::thread worker;
};

Stream *stream_of(void *stream) {
    static Stream *of_none = new Stream;
    return stream ? static_cast<Stream *>(stream) : of_none;
}

struct Context {
    int device;
};

// The allocations, by their start address.
struct Memory {
    std::mutex lock;
    std::map<uintptr_t, std::pair<size_t, int>> device;
    std::map<uintptr_t, size_t> pinned;
    std::map<int, size_t> used;

    bool is_pinned(const void *at, size_t bytes) {
        std::lock_guard<std::mutex> guard(lock);
        auto after = pinned.upper_bound(reinterpret_cast<uintptr_t>(at));
        if (after == pinned.begin())
            return false;
        auto before = std::prev(after);
        return reinterpret_cast<uintptr_t>(at) + bytes <= before->first + before->second;
    }
    // Returns true if one allocation of a device holds these bytes.
    bool on_device(uintptr_t at, size_t bytes) {
        std::lock_guard<std::mutex> guard(lock);
        auto after = device.upper_bound(at);
        if (after == device.begin())
            return false;
        auto before = std::prev(after);
        return at + bytes <= before->first + before->second.first;
    }
};

Memory &memory() {
    static Memory *memory = new Memory;
    return *memory;
}

bool ready = false;
thread_local std::vector<Context *> contexts;

int here() { return contexts.empty() || !contexts.back() ? -1 : contexts.back()->device; }

// NaN in every width of floats, so that reads of unwritten memory show in results.
constexpr int POISON = 0xff;

constexpr unsigned MOST_SHARED_BYTES = 163 << 10;

// The entry points that compiler.cpp adds to each kernel.
using Capture = void *(*)(void **);
using Run = int (*)(void *, const unsigned *, const unsigned *, unsigned);

struct Function {
    std::string name;
    Capture capture;
    Run run;
};

struct Module {
    void *library;
};

int copy(uintptr_t to, const void *from, size_t bytes, Stream *stream) {
    stream->submit([=] { std::memcpy(reinterpret_cast<void *>(to), from, bytes); });
    return SUCCESS;
}

} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API cuInit(unsigned flags) {
    ready = flags == 0;
    return ready ? SUCCESS : INVALID_VALUE;
}
API cuDriverGetVersion(int *version) {
    *version = 12090;
    return SUCCESS;
}
API cuDeviceGetCount(int *count) {
    *count = gpus();
    return ready ? SUCCESS : NOT_INITIALIZED;
}
API cuDeviceGet(int *device, int index) {
    *device = index;
    return !ready ? NOT_INITIALIZED : index >= 0 && index < gpus() ? SUCCESS : INVALID_DEVICE;
}
API cuDeviceGetName(char *name, int length, int device) {
    std::snprintf(name, length, "CUDA on the CPU %d", device);
    return SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *bytes, int) {
    *bytes = memory_bytes();
    return SUCCESS;
}
API cuDeviceGetAttribute(int *value, int attribute, int) {
    const int arch = static_cast<int>(setting("CUDA_ON_CPU_ARCH", 80));
    switch (attribute) {
    case 1: // threads of a block
    case 2: // in x
    case 3: // in y
        *value = 1024;
        return SUCCESS;
    case 4: // in z
        *value = 64;
        return SUCCESS;
    case 5: // blocks in x
        *value = 0x7fffffff;
        return SUCCESS;
    case 6: // in y
    case 7: // in z
        *value = 65535;
        return SUCCESS;
    case 8: // shared memory of a block, in bytes
    case 97: // the same, where a kernel asks for it
        *value = attribute == 8 ? 48 << 10 : int(MOST_SHARED_BYTES);
        return SUCCESS;
    case 10: // threads of a warp
        *value = 32;
        return SUCCESS;
    case 16: // multiprocessors
        *value = 108;
        return SUCCESS;
    case 75:
        *value = arch / 10;
        return SUCCESS;
    case 76:
        *value = arch % 10;
        return SUCCESS;
    case 115: // memory in the order of a stream
        *value = 1;
        return SUCCESS;
    default:
        *value = 0;
        return SUCCESS;
    }
}

API cuGetErrorName(int code, const char **text) {
    switch (code) {
    case OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case LAUNCH_FAILED: *text = "CUDA_ERROR_LAUNCH_FAILED"; break;
    default: *text = "CUDA_ERROR";
    }
    return SUCCESS;
}
API cuGetErrorString(int code, const char **text) {
    switch (code) {
    case OUT_OF_MEMORY: *text = "out of memory"; break;
    case LAUNCH_FAILED: *text = "unspecified launch failure"; break;
    default: *text = "CUDA on the CPU refuses it";
    }
    return SUCCESS;
}

API cuDevicePrimaryCtxRetain(Context **context, int device) {
    static std::vector<Context> *primary = [] {
        auto *all = new std::vector<Context>;
        for (int i = 0; i < gpus(); i++)
            all->push_back({i});
        return all;
    }();
    if (device < 0 || device >= static_cast<int>(primary->size()))
        return INVALID_DEVICE;
    *context = &(*primary)[device];
    return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API cuCtxSetCurrent(Context *context) {
    if (!contexts.empty())
        contexts.pop_back();
    contexts.push_back(context);
    return SUCCESS;
}
API cuCtxPushCurrent_v2(Context *context) {
    contexts.push_back(context);
    return SUCCESS;
}
API cuCtxPopCurrent_v2(Context **context) {
    if (contexts.empty())
        return INVALID_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    return SUCCESS;
}

API cuMemAlloc_v2(uintptr_t *at, size_t bytes) {
    if (sticky)
        return sticky;
    if (here() < 0)
        return INVALID_CONTEXT;
    if (bytes == 0)
        return INVALID_VALUE;
    std::lock_guard<std::mutex> guard(memory().lock);
    size_t &used = memory().used[here()];
    if (used + bytes > memory_bytes())
        return OUT_OF_MEMORY;
    void *found = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!found)
        return OUT_OF_MEMORY;
    std::memset(found, POISON, bytes);
    used += bytes;
    *at = reinterpret_cast<uintptr_t>(found);
    memory().device[*at] = {bytes, here()};
    return SUCCESS;
}
API cuMemAllocAsync(uintptr_t *at, size_t bytes, void *) { return cuMemAlloc_v2(at, bytes); }
static int release(uintptr_t at) {
    std::lock_guard<std::mutex> guard(memory().lock);
    auto found = memory().device.find(at);
    if (found == memory().device.end())
        return INVALID_VALUE;
    memory().used[found->second.second] -= found->second.first;
    memory().device.erase(found);
    std::free(reinterpret_cast<void *>(at));
    return SUCCESS;
}
API cuMemFreeAsync(uintptr_t at, void *stream) {
    stream_of(stream)->submit([at] { release(at); });
    return SUCCESS;
}
API cuMemFree_v2(uintptr_t at) {
    Stream::wait_for_all();
    return release(at);
}
API cuMemAllocHost_v2(void **at, size_t bytes) {
    *at = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!*at)
        return OUT_OF_MEMORY;
    std::lock_guard<std::mutex> guard(memory().lock);
    memory().pinned[reinterpret_cast<uintptr_t>(*at)] = bytes;
    return SUCCESS;
}
API cuMemFreeHost(void *at) {
    std::lock_guard<std::mutex> guard(memory().lock);
    if (!memory().pinned.erase(reinterpret_cast<uintptr_t>(at)))
        return INVALID_VALUE;
    std::free(at);
    return SUCCESS;
}

// Copies from page-locked memory read it when the stream reaches them; copies from other memory read it before the call
// returns.
API cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, void *stream) {
    if (sticky)
        return sticky;
    if (!memory().on_device(to, bytes))
        return INVALID_VALUE;
    if (memory().is_pinned(from, bytes))
        return copy(to, from, bytes, stream_of(stream));
    auto kept = std::make_shared<std::vector<char>>(static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
    stream_of(stream)->submit([=] { std::memcpy(reinterpret_cast<void *>(to), kept->data(), bytes); });
    return SUCCESS;
}
API cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, void *stream) {
    if (!memory().on_device(from, bytes))
        return INVALID_VALUE;
    const bool waits = !memory().is_pinned(to, bytes);
    copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<const void *>(from), bytes, stream_of(stream));
    if (waits)
        stream_of(stream)->record()->wait();
    return sticky;
}

struct Copy2D {
    size_t from_x, from_y;
    unsigned from_type;
    const char *from_host;
    uintptr_t from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    char *to_host;
    uintptr_t to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height;
};
// Types of memory: 1 is the host's, 2 a device's.
API cuMemcpy2DAsync_v2(const Copy2D *copies, void *stream) {
    const Copy2D c = *copies;
    if (c.from_x || c.from_y || c.to_x || c.to_y || (c.from_type != 1 && c.from_type != 2) || (c.to_type != 1 && c.to_type != 2))
        return INVALID_VALUE;
    if (c.width > c.from_pitch || c.width > c.to_pitch)
        return INVALID_VALUE;
    if (c.height == 0 || c.width == 0)
        return SUCCESS;
    const size_t from_bytes = c.from_pitch * (c.height - 1) + c.width, to_bytes = c.to_pitch * (c.height - 1) + c.width;
    const char *from = c.from_type == 1 ? c.from_host : reinterpret_cast<const char *>(c.from_device);
    char *to = c.to_type == 1 ? c.to_host : reinterpret_cast<char *>(c.to_device);
    if ((c.from_type == 2 && !memory().on_device(c.from_device, from_bytes)) ||
        (c.to_type == 2 && !memory().on_device(c.to_device, to_bytes)))
        return INVALID_VALUE;
    std::shared_ptr<std::vector<char>> kept;
    if (c.from_type == 1 && !memory().is_pinned(from, from_bytes)) {
        kept = std::make_shared<std::vector<char>>(from, from + from_bytes);
        from = kept->data();
    }
    stream_of(stream)->submit([=] {
        (void)kept;
        for (size_t row = 0; row < c.height; row++)
            std::memcpy(to + row * c.to_pitch, from + row * c.from_pitch, c.width);
    });
    if (c.to_type == 1 && !memory().is_pinned(to, to_bytes))
        stream_of(stream)->record()->wait();
    return sticky;
}

API cuStreamCreate(void **stream, unsigned) {
    if (sticky)
        return sticky;
    *stream = new Stream;
    return SUCCESS;
}
API cuStreamDestroy_v2(void *) { return SUCCESS; }
API cuStreamSynchronize(void *stream) {
    stream_of(stream)->record()->wait();
    return sticky;
}
API cuStreamQuery(void *stream) {
    return stream_of(stream)->is_idle() ? sticky.load() : NOT_READY;
}
API cuStreamWaitEvent(void *stream, Event *event, unsigned) {
    if (sticky)
        return sticky;
    if (auto mark = event->latest())
        stream_of(stream)->submit([mark] { mark->wait(); });
    return SUCCESS;
}
API cuEventCreate(Event **event, unsigned) {
    if (sticky)
        return sticky;
    *event = new Event;
    return SUCCESS;
}
API cuEventRecord(Event *event, void *stream) {
    if (sticky)
        return sticky;
    auto mark = stream_of(stream)->record();
    std::lock_guard<std::mutex> guard(event->lock);
    event->mark = mark;
    return SUCCESS;
}
API cuEventSynchronize(Event *event) {
    if (auto mark = event->latest())
        mark->wait();
    return sticky;
}
API cuEventDestroy_v2(Event *event) {
    delete event;
    return SUCCESS;
}

// In place of PTX, compiler.cpp returns the path of a library: "//CUDA-ON-CPU <path>\n".
API cuModuleLoadData(Module **module, const char *image) {
    if (sticky)
        return sticky;
    static const char MARKER[] = "//CUDA-ON-CPU ";
    if (std::strncmp(image, MARKER, sizeof MARKER - 1) != 0)
        return INVALID_IMAGE;
    const char *path = image + sizeof MARKER - 1;
    const std::string name(path, std::strcspn(path, "\n"));
    void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "CUDA on the CPU: %s\n", dlerror());
        return INVALID_IMAGE;
    }
    *module = new Module{library};
    return SUCCESS;
}
API cuModuleGetFunction(Function **function, Module *module, const char *name) {
    auto *capture = reinterpret_cast<Capture>(dlsym(module->library, "cuda_on_cpu_capture"));
    auto *run = reinterpret_cast<Run>(dlsym(module->library, "cuda_on_cpu_run"));
    if (!capture || !run || !dlsym(module->library, name))
        return NOT_FOUND;
    *function = new Function{name, capture, run};
    return SUCCESS;
}
API cuFuncSetAttribute(Function *, int, int value) { return value <= int(MOST_SHARED_BYTES) ? SUCCESS : INVALID_VALUE; }
API cuLaunchKernel(Function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra) {
    const bool fits = grid_x && grid_y && grid_z && grid_x <= 0x7fffffff && grid_y <= 65535 && grid_z <= 65535 && block_x && block_y &&
                      block_z && block_z <= 64 && size_t(block_x) * block_y * block_z <= 1024 && shared_bytes <= MOST_SHARED_BYTES;
    if (extra || !fits) {
        std::fprintf(stderr, "CUDA on the CPU: %s cannot have a grid of %u x %u x %u blocks of %u x %u x %u threads and %u bytes\n",
                     function->name.c_str(), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes);
        return INVALID_VALUE;
    }
    if (sticky)
        return sticky;
    // The arguments are copied now, as by CUDA: the caller may change them after the call.
    void *captured = function->capture(parameters);
    const Run run = function->run;
    static std::atomic<long> left{setting("CUDA_ON_CPU_LAUNCHES", -1)};
    const bool fails = left > 0 && --left == 0;
    stream_of(stream)->submit([=] {
        const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
        if (run(captured, grid, block, shared_bytes) || fails)
            sticky = LAUNCH_FAILED;
    });
    return SUCCESS;
}
