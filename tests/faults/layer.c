/* A Vulkan layer that makes chosen calls of the driver fail, for tests.
 *
 * fail_calls() arms it: so many calls of one function return an error, from the n-th on. A test loads this
 * library in its own process and calls that function, or it sets GPUNN_FAULT for another process:
 * NAME:N:TIMES:RESULT, where RESULT is the negative of a VkResult.
 *
 * It needs no headers, neither of Vulkan nor of C, so that any compiler can build it. Every function that it
 * intercepts takes a handle first, and at most six arguments, integers or pointers: Arm's and x86's calling
 * conventions for 64 bits pass these in registers, so one wrapper with six words serves all.
 */

typedef unsigned long long word;
typedef void (*function)(void);
typedef int (*six)(word, word, word, word, word, word);
typedef function (*find)(void *, const char *);

enum { SUCCESS = 0, INITIALIZATION_FAILED = -3 };            /* VkResult */
enum { LOADER_INSTANCE = 47, LOADER_DEVICE = 48, LINKS = 0 }; /* VkStructureType, VkLayerFunction */
enum { MOST = 256 };                                          /* devices in a process */

/* The part of vk_layer.h that says how a layer finds the next one. */
typedef struct Link { struct Link *next; find instance; find device; } Link;
typedef struct Chain { int type; struct Chain *next; int function; Link *links; } Chain;
typedef struct { int type; void *next; unsigned version; find instance, device, physical; } Interface;

#define INTERCEPTED(X) \
    X(vkAllocateCommandBuffers) X(vkAllocateDescriptorSets) X(vkAllocateMemory) X(vkBeginCommandBuffer) \
    X(vkBindBufferMemory) X(vkCreateBuffer) X(vkCreateCommandPool) X(vkCreateComputePipelines) \
    X(vkCreateDescriptorPool) X(vkCreateDescriptorSetLayout) X(vkCreateFence) X(vkCreatePipelineLayout) \
    X(vkCreateQueryPool) X(vkCreateSemaphore) X(vkCreateShaderModule) X(vkDeviceWaitIdle) \
    X(vkEndCommandBuffer) X(vkFlushMappedMemoryRanges) X(vkGetFenceStatus) X(vkGetSemaphoreCounterValue) \
    X(vkInvalidateMappedMemoryRanges) X(vkMapMemory) X(vkQueueSubmit) X(vkResetCommandPool) \
    X(vkWaitForFences) X(vkWaitSemaphores)

#define NUMBER(name) N_##name,
enum { INTERCEPTED(NUMBER) COUNT, CREATE_DEVICE = COUNT, ALL };

#define NAME(name) #name,
static const char *const names[ALL] = {INTERCEPTED(NAME) "vkCreateDevice"};

static struct { long long calls, first, last; int result; } faults[ALL];
static struct { void *key; find next; six calls[COUNT]; } devices[MOST];
static unsigned made;
static find next_instance;

static int equal(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

/* Let `times` calls of a function fail, beginning with the n-th from now; returns 0 for an unknown name. */
int fail_calls(const char *name, long long nth, long long times, int result) {
    for (int i = 0; i < ALL; i++) {
        if (!equal(name, names[i])) continue;
        faults[i].calls = 0;
        faults[i].last = 0;
        faults[i].result = result;
        faults[i].first = nth;
        faults[i].last = nth + times - 1;
        return 1;
    }
    return 0;
}

/* Return how often a function was called since fail_calls() named it, or since the beginning. */
long long count_calls(const char *name) {
    for (int i = 0; i < ALL; i++)
        if (equal(name, names[i])) return faults[i].calls;
    return -1;
}

extern char *getenv(const char *);

static long long number(const char **text) {
    long long found = 0;
    while (**text == ':') ++*text;
    for (; '0' <= **text && **text <= '9'; ++*text) found = 10 * found + (**text - '0');
    return found;
}

static void arm_from_environment(void) {
    const char *text = getenv("GPUNN_FAULT");
    char name[64];
    unsigned length = 0;
    if (!text) return;
    while (*text && *text != ':' && length < sizeof name - 1) name[length++] = *text++;
    name[length] = 0;
    long long nth = number(&text), times = number(&text);
    fail_calls(name, nth, times, -(int)number(&text));
}

static int fault(int i) {
    long long now = ++faults[i].calls;
    return faults[i].first <= now && now <= faults[i].last ? faults[i].result : SUCCESS;
}

/* Handles of a device, its queues and its command buffers begin with the same pointer, the loader's table. */
static int next_call(int i, word a, word b, word c, word d, word e, word f) {
    void *key = *(void **)a;
    int failed = fault(i);
    if (failed) return failed;
    for (unsigned k = made; k-- > 0;)
        if (devices[k].key == key) return devices[k].calls[i](a, b, c, d, e, f);
    return INITIALIZATION_FAILED;
}

#define WRAPPER(name) \
    static int wrapped_##name(word a, word b, word c, word d, word e, word f) { \
        return next_call(N_##name, a, b, c, d, e, f); \
    }
INTERCEPTED(WRAPPER)

#define ENTRY(name) (function)wrapped_##name,
static const function wrappers[COUNT] = {INTERCEPTED(ENTRY)};

static Chain *link_of(void *create_info, int type) {
    Chain *chain = ((Chain *)create_info)->next;
    while (chain && !(chain->type == type && chain->function == LINKS)) chain = chain->next;
    return chain;
}

static int create_instance(void *info, void *allocator, void **instance) {
    Chain *chain = link_of(info, LOADER_INSTANCE);
    if (!chain) return INITIALIZATION_FAILED;
    find next = chain->links->instance;
    chain->links = chain->links->next;
    function create = next((void *)0, "vkCreateInstance");
    int result = ((int (*)(void *, void *, void **))create)(info, allocator, instance);
    if (result == SUCCESS) next_instance = next;
    return result;
}

static int create_device(void *physical, void *info, void *allocator, void **device) {
    Chain *chain = link_of(info, LOADER_DEVICE);
    int failed = fault(CREATE_DEVICE);
    if (failed) return failed;
    if (!chain || made == MOST) return INITIALIZATION_FAILED;
    find instance = chain->links->instance, next = chain->links->device;
    chain->links = chain->links->next;
    function create = instance((void *)0, "vkCreateDevice");
    int result = ((int (*)(void *, void *, void *, void **))create)(physical, info, allocator, device);
    if (result == SUCCESS) {
        devices[made].key = *(void **)*device;
        devices[made].next = next;
        for (int i = 0; i < COUNT; i++) devices[made].calls[i] = (six)next(*device, names[i]);
        made++;
    }
    return result;
}

static function device_function(void *device, const char *name) {
    if (equal(name, "vkGetDeviceProcAddr")) return (function)device_function;
    for (int i = 0; i < COUNT; i++)
        if (equal(name, names[i])) return wrappers[i];
    for (unsigned k = made; k-- > 0;)
        if (devices[k].key == *(void **)device) return devices[k].next(device, name);
    return (function)0;
}

static function instance_function(void *instance, const char *name) {
    if (equal(name, "vkGetInstanceProcAddr")) return (function)instance_function;
    if (equal(name, "vkGetDeviceProcAddr")) return (function)device_function;
    if (equal(name, "vkCreateInstance")) return (function)create_instance;
    if (equal(name, "vkCreateDevice")) return (function)create_device;
    for (int i = 0; i < COUNT; i++)
        if (equal(name, names[i])) return wrappers[i];
    return instance && next_instance ? next_instance(instance, name) : (function)0;
}

int vkNegotiateLoaderLayerInterfaceVersion(Interface *interface) {
    arm_from_environment();
    interface->version = 2;
    interface->instance = instance_function;
    interface->device = device_function;
    interface->physical = (find)0;
    return SUCCESS;
}
