// What archives that were compiled on a new Linux would ask its glibc for, answered inside the library instead, so that it
// loads on older systems: see flambeau/glibc.h. What a library does not use is left out of it.

#include <flambeau/glibc.h>

#ifdef FB_FIRST_GLIBC
#include <pthread.h>

#define FB_INSIDE extern "C" __attribute__((visibility("hidden")))

// libstdc++ asks whether it may count references without atomics (glibc 2.32); "no" is always right.
FB_INSIDE char __libc_single_threaded;
char __libc_single_threaded = 0;

// glibc 2.34 gave these another version when it took them over from libpthread. (noexcept, so that nothing here needs the
// C++ library.)
extern "C" int fb_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept;
extern "C" int fb_pthread_join(pthread_t, void**) noexcept;
__asm__(".symver fb_pthread_create,pthread_create@" FB_FIRST_GLIBC);
__asm__(".symver fb_pthread_join,pthread_join@" FB_FIRST_GLIBC);

FB_INSIDE int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                             void* argument) noexcept {
    return fb_pthread_create(thread, attributes, start, argument);
}

FB_INSIDE int pthread_join(pthread_t thread, void** result) { return fb_pthread_join(thread, result); }

#endif
