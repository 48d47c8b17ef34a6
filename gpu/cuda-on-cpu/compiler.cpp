// A stand-in for libnvrtc, NVIDIA's compiler. It compiles CUDA C++ kernels for the CPU with the system's C++ compiler.
// In place of PTX it returns the path of a library, which driver.cpp loads.
//
// CUDA_ON_CPU_NVRTC: a real libnvrtc that also has to compile each kernel, for the requested GPU, with NVIDIA's headers
// in the folders of CUDA_ON_CPU_NVRTC_INCLUDE (separated by colons). Its errors become errors of the kernel.
// CUDA_ON_CPU_CACHE: the folder of compiled kernels. Default: cuda-on-cpu-<user> in the temporary folder.
// CXX: the C++ compiler. Default: c++.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

enum Result : int { SUCCESS = 0, OUT_OF_MEMORY = 1, COMPILATION = 6, INTERNAL = 11 };

struct Program {
    std::string source, log, library;
};

std::string setting(const char *name, const std::string &otherwise) {
    const char *text = std::getenv(name);
    return text && *text ? text : otherwise;
}

uint64_t hash(const std::string &text, uint64_t state) {
    for (unsigned char byte : text)
        state = (state ^ byte) * 0x100000001b3;
    return state;
}

std::string read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Returns the folders of --include-path.
std::vector<std::string> includes(int count, const char *const *options) {
    static const auto &NAME = *new std::string("--include-path=");
    std::vector<std::string> found;
    for (int i = 0; i < count; i++)
        if (NAME.compare(0, NAME.size(), options[i], NAME.size()) == 0)
            found.push_back(options[i] + NAME.size());
    return found;
}

// Returns the name of the kernel, or an empty string if there is none.
std::string kernel_of(const std::string &source) {
    static const auto &KERNEL = *new std::regex(R"(__global__\s+void\s+(?:__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)\s*)*(\w+)\s*\()");
    std::smatch found;
    return std::regex_search(source, found, KERNEL) ? found[1].str() : "";
}

// Returns the source for the CPU: dynamic shared memory comes from cuda_runtime.h, and the entry points are appended. A
// flag tells whether threads of a block wait for each other, which needs a stack for each.
std::string for_the_cpu(const std::string &source, const std::string &kernel) {
    static const auto &SHARED = *new std::regex(R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?(\w+)\s+(\w+)\s*\[\s*\]\s*;)");
    const std::string body = std::regex_replace(source, SHARED, "$1 *$2 = static_cast<$1 *>(cuda_on_cpu::shared_memory());");
    static const auto &TOGETHER = *new std::regex(R"(__syncthreads|__syncwarp|_sync\s*\(|wmma::)");
    const char *together = std::regex_search(body, TOGETHER) ? "true" : "false";
    return "#include <cuda_runtime.h>\n" + body + "\nCUDA_ON_CPU_KERNEL(" + kernel + ", " + together + ")\n";
}

// Runs a command. Returns true if it succeeded; `log` gets its output.
bool run(const std::vector<std::string> &words, const std::string &log_path, std::string &log) {
    std::vector<char *> arguments, variables;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    // The system's compiler must not load the stand-ins or other libraries under test.
    for (char **variable = environ; *variable; variable++)
        if (std::strncmp(*variable, "LD_LIBRARY_PATH=", 16) != 0)
            variables.push_back(*variable);
    variables.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 2, 1);
    pid_t child = 0;
    const int failure = posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&files);
    if (failure) {
        log = words[0] + ": " + std::strerror(failure);
        return false;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    log = read(log_path);
    unlink(log_path.c_str());
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// NVIDIA's own compiler, if CUDA_ON_CPU_NVRTC names one.
struct Nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*destroy)(void **);

    static const Nvrtc *open(const std::string &path, std::string &why) {
        static Nvrtc nvrtc;
        static auto &failure = *new std::string;
        static const bool found = [&] {
            void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
            if (!library) {
                failure = dlerror();
                return false;
            }
            auto get = [&](auto &function, const char *name) {
                function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
                return function != nullptr;
            };
            return get(nvrtc.create, "nvrtcCreateProgram") && get(nvrtc.compile, "nvrtcCompileProgram") &&
                   get(nvrtc.log_size, "nvrtcGetProgramLogSize") && get(nvrtc.log, "nvrtcGetProgramLog") &&
                   get(nvrtc.destroy, "nvrtcDestroyProgram");
        }();
        why = failure.empty() ? path + " lacks a function" : failure;
        return found ? &nvrtc : nullptr;
    }

    bool accepts(const std::string &source, int count, const char *const *options, const std::string &include, std::string &said) const {
        std::vector<std::string> words;
        for (int i = 0; i < count; i++)
            if (std::strncmp(options[i], "--include-path=", 15) != 0)
                words.push_back(options[i]);
        std::istringstream folders(include);
        for (std::string folder; std::getline(folders, folder, ':');)
            words.push_back("--include-path=" + folder);
        std::vector<const char *> pointers;
        for (const std::string &word : words)
            pointers.push_back(word.c_str());
        void *program = nullptr;
        if (create(&program, source.c_str(), nullptr, 0, nullptr, nullptr) != SUCCESS)
            return false;
        const bool accepted = compile(program, int(pointers.size()), pointers.data()) == SUCCESS;
        size_t size = 0;
        if (log_size(program, &size) == SUCCESS && size > 1) {
            said.resize(size);
            log(program, said.data());
            said.resize(size - 1);
        }
        destroy(&program);
        return accepted;
    }
};

int compile(Program &program, int count, const char *const *options) {
    const std::string cxx = setting("CXX", "c++"), nvrtc = setting("CUDA_ON_CPU_NVRTC", "");
    const std::string folder = setting("CUDA_ON_CPU_CACHE", setting("TMPDIR", "/tmp") + "/cuda-on-cpu-" + std::to_string(getuid()));
    const std::string kernel = kernel_of(program.source);
    if (kernel.empty()) {
        program.log = "there is no kernel: extern \"C\" __global__ void";
        return COMPILATION;
    }
    const std::string source = for_the_cpu(program.source, kernel);

    // On a GPU signed integers wrap. Floating point is not fused, so that all CPUs give the same bits.
    // scripts/cuda_on_cpu.sh compiles the header cuda_runtime.h with the same flags.
    std::vector<std::string> words = {cxx, "-std=c++17", "-O1", "-w", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off",
                                      "-fmax-errors=5", "-shared", "-fPIC"};
    const auto folders = includes(count, options);
    for (const std::string &include : folders)
        words.push_back("-I" + include);
    // The cache is keyed by everything that the compiled library depends on.
    std::string all = nvrtc + "\n" + source;
    for (const std::string &word : words)
        all += word + "\n";
    for (const std::string &include : folders)
        for (const char *header : {"cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "mma.h"})
            all += read(include + "/" + header);
    // NVIDIA's compiler may accept a kernel for one GPU and reject it for another.
    if (!nvrtc.empty())
        for (int i = 0; i < count; i++)
            all += options[i];
    char name[64];
    std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash(all, 0xcbf29ce484222325)),
                  static_cast<unsigned long long>(hash(all, 0x84222325cbf29ce4)));
    program.library = folder + "/" + name + ".so";
    if (access(program.library.c_str(), R_OK) == 0)
        return SUCCESS;

    if (!nvrtc.empty()) {
        std::string said;
        const Nvrtc *compiler = Nvrtc::open(nvrtc, said);
        if (!compiler) {
            program.log = "CUDA_ON_CPU_NVRTC: " + said;
            return COMPILATION;
        }
        if (!compiler->accepts(program.source, count, options, setting("CUDA_ON_CPU_NVRTC_INCLUDE", ""), said)) {
            program.log = "NVIDIA's compiler: " + said;
            return COMPILATION;
        }
    }

    mkdir(folder.c_str(), 0700);
    static int number = 0;
    // Processes may compile the same kernel at once: each writes its own file and renames it.
    const std::string start = folder + "/" + name + "." + std::to_string(getpid()) + "." + std::to_string(__sync_fetch_and_add(&number, 1));
    const std::string text = start + ".cpp", made = start + ".so";
    if (!(std::ofstream(text) << source).flush()) {
        program.log = text + ": " + std::strerror(errno);
        return INTERNAL;
    }
    words.insert(words.end(), {"-o", made, text});
    const bool compiled = run(words, start + ".log", program.log);
    unlink(text.c_str());
    if (!compiled) {
        unlink(made.c_str());
        return COMPILATION;
    }
    return std::rename(made.c_str(), program.library.c_str()) == 0 ? SUCCESS : INTERNAL;
}

std::string ptx(const Program &program) { return "//CUDA-ON-CPU " + program.library + "\n"; }

} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API nvrtcVersion(int *major, int *minor) {
    *major = 12;
    *minor = 9;
    return SUCCESS;
}
API nvrtcGetNumSupportedArchs(int *count) {
    *count = 8;
    return SUCCESS;
}
API nvrtcGetSupportedArchs(int *archs) {
    const int all[] = {60, 61, 70, 75, 80, 86, 89, 90};
    std::memcpy(archs, all, sizeof all);
    return SUCCESS;
}
API nvrtcCreateProgram(Program **program, const char *source, const char *, int headers, const char *const *, const char *const *) {
    if (headers)
        return INTERNAL;
    *program = new Program{source, "", ""};
    return SUCCESS;
}
API nvrtcCompileProgram(Program *program, int count, const char *const *options) { return compile(*program, count, options); }
API nvrtcGetProgramLogSize(Program *program, size_t *size) {
    *size = program->log.size() + 1;
    return SUCCESS;
}
API nvrtcGetProgramLog(Program *program, char *log) {
    std::memcpy(log, program->log.c_str(), program->log.size() + 1);
    return SUCCESS;
}
API nvrtcGetPTXSize(Program *program, size_t *size) {
    *size = ptx(*program).size() + 1;
    return SUCCESS;
}
API nvrtcGetPTX(Program *program, char *text) {
    const std::string all = ptx(*program);
    std::memcpy(text, all.c_str(), all.size() + 1);
    return SUCCESS;
}
API nvrtcDestroyProgram(Program **program) {
    delete *program;
    *program = nullptr;
    return SUCCESS;
}
